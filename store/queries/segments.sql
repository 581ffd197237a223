-- name: InsertSegments :exec
-- Everything a published range became. The parallel arrays are one segment a position. Segments of streams that are gone are left out. Listeners are told the
-- organizations, 200 ids a notification because its payload is limited to 8,000 bytes.
WITH published AS (
    INSERT INTO wal_ranges (wal_id, from_lsn, to_lsn, checksum)
    SELECT @wal_id::uuid, @wal_from::bigint, @wal_to::bigint, @checksum::text WHERE @wal_to::bigint > @wal_from::bigint
), given AS (
    SELECT unnest(@ids::text[])::uuid AS id, unnest(@streams::text[])::uuid AS stream_id,
        unnest(@min_times::bigint[]) AS min_time, unnest(@max_times::bigint[]) AS max_time, unnest(@row_counts::bigint[]) AS row_count,
        unnest(@levels::smallint[]) AS level, unnest(@schema_versions::bigint[]) AS schema_version,
        unnest(@data_keys::text[]) AS data_key, unnest(@data_offsets::bigint[]) AS data_offset,
        unnest(@data_lengths::bigint[]) AS data_length, unnest(@data_sums::text[]) AS data_sum,
        unnest(@index_keys::text[]) AS index_key, unnest(@index_offsets::bigint[]) AS index_offset,
        unnest(@index_lengths::bigint[]) AS index_length, unnest(@index_sums::text[]) AS index_sum
), inserted AS (
    INSERT INTO segment_rows (id, org_id, stream_id, signal, min_time, max_time, row_count, level, schema_version,
        data_key, data_offset, data_length, data_sum, index_key, index_offset, index_length, index_sum,
        wal_id, wal_from, wal_to, node_id, incarnation, index_version)
    SELECT g.id, s.org_id, s.id, s.signal, g.min_time, g.max_time, g.row_count, g.level, g.schema_version,
        g.data_key, g.data_offset, g.data_length, g.data_sum, g.index_key, g.index_offset, g.index_length, g.index_sum,
        @wal_id::uuid, @wal_from::bigint, @wal_to::bigint, @node_id::text, @incarnation::bigint, @index_version::smallint
    FROM given g JOIN streams s ON s.id = g.stream_id
    RETURNING org_id
), numbered AS (
    SELECT o.org_id, (row_number() OVER ()) / 200 AS part FROM (SELECT DISTINCT inserted.org_id FROM inserted) o
)
SELECT pg_notify('segments', string_agg(org_id::text, ',')) FROM numbered GROUP BY part;

-- name: CompareSegments :one
-- Of the given segments whose streams still exist: how many there are, and how many are in the catalog with the same object.
WITH given AS (
    SELECT unnest(@ids::text[])::uuid AS id, unnest(@streams::text[])::uuid AS stream_id, unnest(@data_keys::text[]) AS data_key
)
SELECT count(*)::bigint AS wanted, count(g.id)::bigint AS same
FROM given JOIN streams s ON s.id = given.stream_id
LEFT JOIN segment_rows g ON g.id = given.id AND g.data_key = given.data_key;

-- name: StreamSegments :many
SELECT * FROM segment_rows WHERE stream_id = @stream_id AND state = 'live' ORDER BY min_time, id;

-- name: ExpireStream :execrows
UPDATE segment_rows SET state = 'expired', dead_at = now() WHERE stream_id = @stream_id AND state = 'live';

-- name: ExpireOrganization :execrows
UPDATE segment_rows SET state = 'expired', dead_at = now() WHERE org_id = @org_id AND state = 'live';

-- name: Footprints :many
-- What placement counts of an organization's live segments, of one stream or of all. Read row by row; see db/each.go.
SELECT id, max_time, (data_length + index_length)::bigint AS bytes FROM segment_rows
WHERE org_id = @org_id AND state = 'live' AND (sqlc.narg('stream_id')::uuid IS NULL OR stream_id = sqlc.narg('stream_id')::uuid);

-- name: FootprintSpan :one
-- The times of the newest records of those segments, from the oldest to the newest; 0 and 0 without any.
WITH ends AS (
    SELECT g.max_time AS first_end, g.max_time FROM segment_rows g
    WHERE g.org_id = @org_id AND g.state = 'live' AND (sqlc.narg('stream_id')::uuid IS NULL OR g.stream_id = sqlc.narg('stream_id')::uuid)
    UNION ALL
    SELECT m.first_end, m.max_time FROM manifests m
    WHERE m.org_id = @org_id AND m.state = 'live' AND (sqlc.narg('stream_id')::uuid IS NULL OR m.stream_id = sqlc.narg('stream_id')::uuid)
)
SELECT coalesce(min(ends.first_end), 0)::bigint AS first, coalesce(max(ends.max_time), 0)::bigint AS last FROM ends;

-- name: LiveSegment :one
-- Among the rows; see Store.LiveSegment for sealed ones.
SELECT sqlc.embed(g), s.name AS stream FROM segment_rows g JOIN streams s ON s.id = g.stream_id
WHERE g.id = @id AND g.org_id = @org_id AND g.state = 'live';
