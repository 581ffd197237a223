ALTER TABLE documents DROP COLUMN folded;
