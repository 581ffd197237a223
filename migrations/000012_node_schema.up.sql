-- The newest schema that a node's program knows. Nodes of older releases do not say it and have 0; what they would misread waits until they are gone.
ALTER TABLE nodes ADD COLUMN knows integer NOT NULL DEFAULT 0;
