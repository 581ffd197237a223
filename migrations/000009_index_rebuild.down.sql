ALTER TABLE segments DROP COLUMN index_version, DROP COLUMN index_fields;
