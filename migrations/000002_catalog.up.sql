-- What exists and where: nodes, WALs, streams, segments. Times of data are nanoseconds since the epoch; times of events are timestamptz in this server's clock.

-- For routing only: deleting a row fences nobody.
CREATE TABLE nodes (
    id           text PRIMARY KEY,
    addr         text NOT NULL,
    roles        text[] NOT NULL,
    milli_cpu    integer NOT NULL,
    placement_id text NOT NULL,
    version      text NOT NULL,
    incarnation  bigint NOT NULL,
    started_at   timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    draining     boolean NOT NULL DEFAULT false
);

-- The fence. A row is never deleted and never touched by heartbeats; each start of a node takes the next number.
CREATE TABLE node_incarnations (
    id          text PRIMARY KEY,
    incarnation bigint NOT NULL
);

-- Every WAL that may hold unflushed rows. position is the last LSN that is published; clean says that nothing above it exists.
CREATE TABLE wals (
    id           uuid PRIMARY KEY,
    node_id      text NOT NULL,
    incarnation  bigint NOT NULL,
    addr         text NOT NULL,
    identity     text NOT NULL, -- of the directory: device and inode
    position     bigint NOT NULL DEFAULT 0 CHECK (position >= 0),
    clean        boolean NOT NULL DEFAULT false,
    state        text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'adopted', 'discarded')),
    taken_at     timestamptz NOT NULL DEFAULT now(),
    published_at timestamptz
) WITH (fillfactor = 50);

-- What was published, so that a repeated publish is told from a different one. Pruned after days.
CREATE TABLE wal_ranges (
    wal_id       uuid NOT NULL REFERENCES wals ON DELETE CASCADE,
    from_lsn     bigint NOT NULL,
    to_lsn       bigint NOT NULL CHECK (to_lsn > from_lsn),
    checksum     text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (wal_id, to_lsn)
);
CREATE INDEX wal_ranges_age ON wal_ranges (published_at);

-- fields is a JSON array in order of first sight; type json, not jsonb, because it is read and written whole.
CREATE TABLE streams (
    id             uuid PRIMARY KEY,
    org_id         uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
    signal         smallint NOT NULL CHECK (signal BETWEEN 1 AND 3),
    name           text NOT NULL,
    schema_version bigint NOT NULL DEFAULT 0,
    fields         json NOT NULL DEFAULT '[]',
    retention_days integer NOT NULL DEFAULT 0 CHECK (retention_days >= 0),
    write_mode     text NOT NULL DEFAULT '' CHECK (write_mode IN ('', 'wal', 'shards')),
    indexed_fields text[] NOT NULL DEFAULT '{}',
    max_fields     integer NOT NULL DEFAULT 0 CHECK (max_fields >= 0),
    created_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, signal, name)
);

-- No foreign key to streams: the segments of a deleted stream stay, expired, until their objects are gone.
CREATE TABLE segments (
    id             uuid PRIMARY KEY,
    org_id         uuid NOT NULL,
    stream_id      uuid NOT NULL,
    signal         smallint NOT NULL,
    min_time       bigint NOT NULL,
    max_time       bigint NOT NULL CHECK (max_time >= min_time),
    row_count      bigint NOT NULL CHECK (row_count >= 0),
    level          smallint NOT NULL,
    schema_version bigint NOT NULL,
    data_key       text NOT NULL,
    data_offset    bigint NOT NULL,
    data_length    bigint NOT NULL,
    data_sum       text NOT NULL,
    index_key      text NOT NULL,
    index_offset   bigint NOT NULL,
    index_length   bigint NOT NULL,
    index_sum      text NOT NULL,
    wal_id         uuid, -- null after a merge
    wal_from       bigint NOT NULL DEFAULT 0,
    wal_to         bigint NOT NULL DEFAULT 0,
    state          text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'replaced', 'expired')),
    dead_at        timestamptz CHECK ((dead_at IS NULL) = (state = 'live')),
    node_id        text NOT NULL, -- the publisher
    incarnation    bigint NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX segments_live ON segments (stream_id, max_time) WHERE state = 'live';
CREATE INDEX segments_dead ON segments (dead_at) WHERE state <> 'live';

-- A client's Idempotency-Key for 15 minutes: which WAL took each part (stream) of the request. parts and wals run in parallel.
CREATE TABLE batch_owner (
    org_id    uuid NOT NULL,
    key       bytea NOT NULL, -- BLAKE3-128 of the key
    body_hash bytea NOT NULL,
    parts     uuid[] NOT NULL,
    wals      uuid[] NOT NULL,
    pinned_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX batch_owner_age ON batch_owner (pinned_at);

CREATE TABLE metric_metadata (
    org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
    name   text NOT NULL,
    type   text NOT NULL,
    unit   text NOT NULL,
    help   text NOT NULL,
    PRIMARY KEY (org_id, name)
);
