-- Merging, retention and the deletion of what is dead.

-- An object is deleted when no row names it, and reconciliation walks the rows in the object store's order, which is that of bytes.
ALTER TABLE segments ALTER COLUMN data_key TYPE text COLLATE "C", ALTER COLUMN index_key TYPE text COLLATE "C";
CREATE INDEX segments_object ON segments (data_key);

-- Objects that no segment refers to any more. Deleting one twice does no harm, so any node may.
CREATE TABLE garbage (
    key      text COLLATE "C" PRIMARY KEY,
    found_at timestamptz NOT NULL DEFAULT now()
);

-- A long query's claim on its snapshot: while it beats, nothing that was live at snapshot_at is deleted.
CREATE TABLE snapshot_pins (
    id           uuid PRIMARY KEY,
    snapshot_at  timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL DEFAULT now()
);
