DROP INDEX segments_newest;
