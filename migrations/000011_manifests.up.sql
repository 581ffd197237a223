-- A manifest is the catalog's rows of a stream's finished day in one: the segments that it lists are not in the table segments, and are as live as those. See store/DESIGN.md.
CREATE TABLE manifests (
    id         uuid PRIMARY KEY,
    org_id     uuid NOT NULL,
    stream_id  uuid NOT NULL,
    signal     smallint NOT NULL,
    day        integer NOT NULL, -- since the epoch, of the last record of each of its segments
    min_time   bigint NOT NULL,
    max_time   bigint NOT NULL CHECK (max_time >= min_time),
    first_end  bigint NOT NULL, -- the last record of the segment that ends first
    segments   integer NOT NULL CHECK (segments > 0),
    row_count  bigint NOT NULL,
    bytes      bigint NOT NULL, -- of data and index objects
    first_key  text COLLATE "C" NOT NULL, -- among the keys of all its objects
    last_key   text COLLATE "C" NOT NULL,
    index_version smallint NOT NULL, -- the oldest among its segments
    index_fields text[] NOT NULL, -- those of which each of its segments has filters
    data       bytea NOT NULL, -- never changed
    state      text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'replaced', 'expired')),
    dead_at    timestamptz CHECK ((dead_at IS NULL) = (state = 'live')),
    created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE manifests ALTER COLUMN data SET STORAGE EXTERNAL; -- it is compressed
CREATE INDEX manifests_live ON manifests (stream_id, max_time, min_time) WHERE state = 'live';
CREATE INDEX manifests_day ON manifests (day) WHERE state = 'live';
CREATE INDEX manifests_dead ON manifests (dead_at) WHERE state <> 'live';
