DROP TABLE snapshot_pins;
DROP TABLE garbage;
DROP INDEX segments_object;
ALTER TABLE segments ALTER COLUMN data_key TYPE text COLLATE "default", ALTER COLUMN index_key TYPE text COLLATE "default";
