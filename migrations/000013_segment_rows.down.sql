DROP VIEW segments;
DROP FUNCTION all_segments_are_rows;
ALTER TABLE segment_rows RENAME TO segments;
