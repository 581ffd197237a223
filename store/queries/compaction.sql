-- name: Clock :one
SELECT now()::timestamptz AS at;

-- name: StreamIDs :many
SELECT id FROM streams ORDER BY id;

-- name: OrganizationIDs :many
-- Also those that are gone and have segments left.
SELECT o.id FROM organizations o
UNION
SELECT DISTINCT g.org_id FROM segment_rows g WHERE g.state <> 'live'
UNION
SELECT DISTINCT m.org_id FROM manifests m WHERE m.state <> 'live'
ORDER BY 1;

-- name: DeletedOrganizations :many
-- As the audit log has them; an index holds these entries and no others, so the words must stay as they are there.
SELECT DISTINCT a.org_id::text AS org_id FROM audit a
WHERE a.action = 'organization.delete' AND a.outcome = 'ok' AND a.at > now() - make_interval(secs => @age_secs::float8) AND a.org_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM organizations o WHERE o.id = a.org_id);

-- name: MergeCandidates :many
SELECT sqlc.embed(g), extract(epoch FROM now() - g.created_at)::float8 AS age_secs FROM segment_rows g
WHERE g.stream_id = @stream_id AND g.state = 'live' ORDER BY g.created_at, g.id;

-- name: OutdatedIndexes :many
-- Live segments of an organization whose index is of an older version, missing, or without a filter that their stream asks for; newest first, from a place on. It
-- reads all of the organization's live segments. Metric segments have no filters of fields.
SELECT sqlc.embed(g), extract(epoch FROM now() - g.created_at)::float8 AS age_secs, s.indexed_fields FROM segment_rows g JOIN streams s ON s.id = g.stream_id
WHERE s.org_id = @org_id AND g.state = 'live' AND (g.max_time, g.id) < (@before_time::bigint, @before_id::uuid)
    AND (g.index_version < @version::smallint OR s.signal <> @metrics::smallint AND NOT s.indexed_fields <@ g.index_fields)
ORDER BY g.max_time DESC, g.id DESC LIMIT @most::integer;

-- name: OutdatedAmong :many
-- Those of some segments that OutdatedIndexes would list, in its order.
SELECT sqlc.embed(g), extract(epoch FROM now() - g.created_at)::float8 AS age_secs, s.indexed_fields FROM segment_rows g JOIN streams s ON s.id = g.stream_id
WHERE g.id = ANY (CAST(@ids::text[] AS uuid[])) AND g.state = 'live'
    AND (g.index_version < @version::smallint OR s.signal <> @metrics::smallint AND NOT s.indexed_fields <@ g.index_fields)
ORDER BY g.max_time DESC, g.id DESC;

-- name: LoseIndexes :execrows
-- It may read the whole table: it is for the few objects that are missing.
UPDATE segment_rows SET index_version = 0 WHERE index_key = ANY (@keys::text[]) AND index_key <> data_key AND state = 'live' AND index_version <> 0;

-- name: LoseIndex :execrows
UPDATE segment_rows SET index_version = 0 WHERE id = @id AND index_sum = @index_sum AND state = 'live' AND index_version <> 0;

-- name: RetentionDays :one
-- The stream's own retention, else its organization's, else 0: the installation's.
SELECT coalesce(nullif(s.retention_days, 0), o.retention_days)::integer AS days FROM streams s JOIN organizations o ON o.id = s.org_id WHERE s.id = @id;

-- name: LockRetention :one
-- RetentionDays, which nobody changes before the end of the transaction.
SELECT coalesce(nullif(s.retention_days, 0), o.retention_days)::integer AS days FROM streams s JOIN organizations o ON o.id = s.org_id WHERE s.id = @id FOR SHARE OF s, o;

-- name: ShareStreams :exec
-- The lock that deleting a stream takes alone (see OwnStreams): a merge either finds its inputs expired, or the deletion sees the merged segment.
SELECT pg_advisory_xact_lock_shared(5471290331);

-- name: LockInputs :many
-- In id order, so that two merges never lock in opposite orders.
SELECT g.id, g.org_id, g.stream_id, g.row_count FROM segment_rows g
WHERE g.id = ANY (CAST(@ids::text[] AS uuid[])) AND g.state = 'live' ORDER BY g.id FOR UPDATE;

-- name: MarkReplaced :execrows
UPDATE segment_rows SET state = 'replaced', dead_at = now() WHERE id = ANY (CAST(@ids::text[] AS uuid[])) AND state = 'live';

-- name: InsertMerged :exec
-- It was written when the last of its inputs was, which are locked: created_at orders what holds the same samples.
INSERT INTO segment_rows (id, org_id, stream_id, signal, min_time, max_time, row_count, level, schema_version,
    data_key, data_offset, data_length, data_sum, index_key, index_offset, index_length, index_sum, wal_id, wal_from, wal_to, node_id, incarnation,
    index_version, index_fields, created_at)
VALUES (@id, @org_id, @stream_id, @signal, @min_time, @max_time, @row_count, @level, @schema_version,
    @data_key, @data_offset, @data_length, @data_sum, @index_key, @index_offset, @index_length, @index_sum, NULL, 0, 0, @node_id, @incarnation,
    @index_version, @index_fields::text[], (SELECT max(i.created_at) FROM segment_rows i WHERE i.id = ANY (CAST(@inputs::text[] AS uuid[]))));

-- name: MergedFrom :one
-- Whether a merged segment is in the catalog, in whatever state: its publish went through.
SELECT EXISTS (SELECT 1 FROM segment_rows WHERE id = @id) AS there;

-- name: ExpireOld :execrows
UPDATE segment_rows SET state = 'expired', dead_at = now() WHERE stream_id = @stream_id AND state = 'live' AND max_time < @before::bigint;

-- name: OwnGarbage :exec
-- One collection at a time: two that delete the last two rows of one object would each see the other's.
SELECT pg_advisory_xact_lock(5471290332);

-- name: CollectDead :many
-- Removes rows that died before the grace, and before the oldest snapshot that somebody still reads, and gives the objects that no row names now.
-- An index lies in its data's object or in one of its own, so data_key tells for both.
-- A row dies at the start of a transaction and is seen to be dead after its end: a snapshot from in between reads it. No transaction takes two minutes.
WITH old AS (
    SELECT g.id FROM segment_rows g
    WHERE g.state <> 'live' AND g.dead_at < now() - make_interval(secs => @grace_secs::float8)
      AND g.dead_at <= coalesce((SELECT min(p.snapshot_at) - interval '2 minutes' FROM snapshot_pins p WHERE p.heartbeat_at >= now() - make_interval(secs => @pin_silence_secs::float8)), 'infinity')
    ORDER BY g.dead_at LIMIT @most::integer
), gone AS (
    DELETE FROM segment_rows s USING old WHERE s.id = old.id RETURNING s.id, s.data_key, s.index_key
), objects AS (
    SELECT gone.data_key AS key FROM gone UNION SELECT gone.index_key FROM gone
), free AS (
    INSERT INTO garbage (key)
    SELECT o.key FROM objects o
    WHERE NOT EXISTS (SELECT 1 FROM segment_rows s WHERE s.data_key = o.key AND NOT EXISTS (SELECT 1 FROM gone WHERE gone.id = s.id))
    ON CONFLICT (key) DO NOTHING
)
SELECT gone.id FROM gone;

-- name: Garbage :many
SELECT key FROM garbage ORDER BY key LIMIT @most::integer;

-- name: DropGarbage :execrows
DELETE FROM garbage WHERE key = ANY (@keys::text[]);

-- name: ObjectRows :many
-- Objects of an organization in key order, above one key and up to another.
SELECT DISTINCT g.data_key, g.index_key FROM segment_rows g
WHERE g.org_id = @org_id AND g.data_key > @above::text AND g.data_key <= @upto::text ORDER BY g.data_key, g.index_key;

-- name: NamedAmong :many
-- The keys that a row names or, if that is asked, that wait for deletion. It may read the whole table: it is for the few objects that nothing seems to name.
SELECT k.key::text AS key FROM unnest(@keys::text[]) AS k(key)
WHERE EXISTS (SELECT 1 FROM segment_rows g WHERE g.data_key = k.key COLLATE "C") OR @with_garbage::boolean AND EXISTS (SELECT 1 FROM garbage b WHERE b.key = k.key COLLATE "C")
   OR k.key IN (SELECT i.index_key FROM segment_rows i WHERE i.index_key = ANY (@keys::text[]));

-- name: PinSnapshot :exec
INSERT INTO snapshot_pins (id, snapshot_at) VALUES (@id, @snapshot_at)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = now();

-- name: UnpinSnapshot :exec
DELETE FROM snapshot_pins WHERE id = @id;

-- name: DeleteSilentPins :execrows
DELETE FROM snapshot_pins WHERE heartbeat_at < now() - make_interval(secs => @silence_secs::float8);

-- name: NotifySegments :exec
SELECT pg_notify('segments', @org_id::text);
