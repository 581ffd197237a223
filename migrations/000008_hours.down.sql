DROP INDEX segments_wide;
DROP INDEX segments_live;
CREATE INDEX segments_live ON segments (stream_id, max_time) WHERE state = 'live';
