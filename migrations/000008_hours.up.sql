-- Segments of an hour long ago, without looking at all that came after it. A segment that is no wider than a day ends within a day of the time asked for, so both ends
-- of the index are bounded; the few that late records made wider are looked up apart. The halves are compared because the difference of two times may not fit.
DROP INDEX segments_live;
CREATE INDEX segments_live ON segments (stream_id, max_time, min_time) WHERE state = 'live';
CREATE INDEX segments_wide ON segments (stream_id, max_time) WHERE state = 'live' AND max_time / 2 - min_time / 2 > 43200000000000;
