-- name: LockDay :many
-- What of a stream's day may be sealed, in id order as merges lock. Segments that span more than a day belong to none. A segment that shares its data's object is left
-- out: no manifest names an object that a row names, so the collection of dead rows need not know manifests. So is one whose index is to be built anew.
SELECT g.* FROM segment_rows g
WHERE g.stream_id = @stream_id AND g.state = 'live' AND g.max_time >= @start_time::bigint AND g.max_time < @end_time::bigint
    AND g.max_time / 2 - g.min_time / 2 <= 43200000000000 AND g.created_at <= now() - make_interval(secs => @age_secs::float8)
    AND NOT EXISTS (SELECT 1 FROM segment_rows o WHERE o.data_key = g.data_key AND o.id <> g.id)
    AND g.index_version >= @version::smallint AND (g.signal = @metrics::smallint OR NOT EXISTS (SELECT 1 FROM streams s WHERE s.id = g.stream_id AND NOT s.indexed_fields <@ g.index_fields))
ORDER BY g.id LIMIT @most::integer FOR UPDATE OF g;

-- name: InsertManifest :exec
INSERT INTO manifests (id, org_id, stream_id, signal, day, min_time, max_time, first_end, segments, row_count, bytes, first_key, last_key, index_version, index_fields, data)
VALUES (@id, @org_id, @stream_id, @signal, @day, @min_time, @max_time, @first_end, @segments, @row_count, @bytes, @first_key, @last_key, @index_version, @index_fields::text[], @data);

-- name: DeleteSealed :execrows
DELETE FROM segment_rows WHERE id = ANY (CAST(@ids::text[] AS uuid[])) AND state = 'live';

-- name: LockManifest :one
SELECT * FROM manifests WHERE id = @id AND state = 'live' FOR UPDATE;

-- name: ReplaceManifest :exec
UPDATE manifests SET state = 'replaced', dead_at = now() WHERE id = @id;

-- name: RestoreSegments :execrows
-- Rows as they were when they were sealed, but for their state. Arrays of arrays would be taken apart to their elements, so index_fields come as text.
INSERT INTO segment_rows (id, org_id, stream_id, signal, min_time, max_time, row_count, level, schema_version,
    data_key, data_offset, data_length, data_sum, index_key, index_offset, index_length, index_sum,
    wal_id, wal_from, wal_to, state, dead_at, node_id, incarnation, created_at, index_version, index_fields)
SELECT unnest(@ids::text[])::uuid, @org_id::uuid, @stream_id::uuid, @signal::smallint, unnest(@min_times::bigint[]), unnest(@max_times::bigint[]), unnest(@row_counts::bigint[]),
    unnest(@levels::smallint[]), unnest(@schema_versions::bigint[]),
    unnest(@data_keys::text[]), unnest(@data_offsets::bigint[]), unnest(@data_lengths::bigint[]), unnest(@data_sums::text[]),
    unnest(@index_keys::text[]), unnest(@index_offsets::bigint[]), unnest(@index_lengths::bigint[]), unnest(@index_sums::text[]),
    nullif(unnest(@wal_ids::text[]), '')::uuid, unnest(@wal_froms::bigint[]), unnest(@wal_tos::bigint[]), @state::text, sqlc.narg('dead_at')::timestamptz,
    unnest(@node_ids::text[]), unnest(@incarnations::bigint[]), unnest(@created_ats::timestamptz[]),
    unnest(@index_versions::smallint[]), unnest(@index_fields::text[])::text[];

-- name: ExpireOldManifests :one
-- Whole days that are past their retention. Their rows come back, expired, when they are collected.
WITH gone AS (
    UPDATE manifests SET state = 'expired', dead_at = now() WHERE stream_id = @stream_id AND state = 'live' AND max_time < @before::bigint RETURNING segments
)
SELECT coalesce(sum(gone.segments), 0)::bigint AS segments FROM gone;

-- name: ExpireStreamManifests :exec
UPDATE manifests SET state = 'expired', dead_at = now() WHERE stream_id = @stream_id AND state = 'live';

-- name: ExpireOrganizationManifests :exec
UPDATE manifests SET state = 'expired', dead_at = now() WHERE org_id = @org_id AND state = 'live';

-- name: LockDeadManifests :many
-- Those that died before the grace, and before the oldest snapshot that somebody still reads: as CollectDead has it for rows. Without those that were passed over.
SELECT m.* FROM manifests m
WHERE m.state <> 'live' AND m.dead_at < now() - make_interval(secs => @grace_secs::float8) AND m.id <> ALL (CAST(@passed::text[] AS uuid[]))
    AND m.dead_at <= coalesce((SELECT min(p.snapshot_at) - interval '2 minutes' FROM snapshot_pins p WHERE p.heartbeat_at >= now() - make_interval(secs => @pin_silence_secs::float8)), 'infinity')
ORDER BY m.dead_at LIMIT @most::integer FOR UPDATE OF m;

-- name: DeleteManifest :exec
DELETE FROM manifests WHERE id = @id;

-- name: ManifestData :many
SELECT id, org_id, stream_id, signal, data FROM manifests WHERE id = ANY (CAST(@ids::text[] AS uuid[]));

-- name: LiveManifests :many
-- Of an organization's stream, or of all its streams if none is named; the newest first.
SELECT id FROM manifests
WHERE org_id = @org_id AND state = 'live' AND (sqlc.narg('stream_id')::uuid IS NULL OR stream_id = sqlc.narg('stream_id')::uuid) ORDER BY day DESC, id;

-- name: StreamManifests :many
SELECT id, min_time, max_time FROM manifests WHERE stream_id = @stream_id AND state = 'live' ORDER BY day, id;

-- name: NewestSealedDay :one
-- The newest day with a live manifest up to one; -2147483648 if there is none.
SELECT coalesce(max(day), -2147483648)::integer AS day FROM manifests WHERE state = 'live' AND day <= @upto;

-- name: DayManifests :many
SELECT id FROM manifests WHERE state = 'live' AND day = @day ORDER BY id;

-- name: ManifestsEndingAt :many
-- Where a segment with that last record may be sealed, also if it has expired since.
SELECT id FROM manifests WHERE stream_id = @stream_id AND state <> 'replaced' AND first_end <= @max_time::bigint AND max_time >= @max_time::bigint ORDER BY id;

-- name: ManifestsBetween :many
-- Which may name objects of an organization above one key and up to another. A manifest that expired names its objects until its rows are back.
SELECT id, first_key, last_key, segments FROM manifests WHERE org_id = @org_id AND state <> 'replaced' AND last_key > @above::text AND first_key <= @upto::text ORDER BY id;

-- name: ManifestsAround :many
-- Which may name one of some objects.
SELECT m.id FROM manifests m
WHERE m.state <> 'replaced' AND EXISTS (SELECT 1 FROM unnest(@keys::text[]) AS k(key) WHERE k.key COLLATE "C" BETWEEN m.first_key AND m.last_key) ORDER BY m.id;

-- name: OutdatedManifests :many
-- The live manifests of an organization with a segment that OutdatedAmong would list, newest first.
SELECT m.id FROM manifests m JOIN streams s ON s.id = m.stream_id
WHERE s.org_id = @org_id AND m.state = 'live' AND (m.index_version < @version::smallint OR s.signal <> @metrics::smallint AND NOT s.indexed_fields <@ m.index_fields)
ORDER BY m.day DESC, m.id;
