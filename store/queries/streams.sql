-- name: StreamByKey :one
SELECT * FROM streams WHERE org_id = @org_id AND signal = @signal AND name = @name;

-- name: StreamByID :one
SELECT * FROM streams WHERE id = @id;

-- name: ListStreams :many
-- Every organization's, the youngest first.
SELECT id, org_id, signal, name, max_fields FROM streams ORDER BY created_at DESC, id LIMIT @most;

-- name: LockOrganization :one
-- Serialises the creation of streams in an organization, so that their number is exact.
SELECT id FROM organizations WHERE id = @id FOR NO KEY UPDATE;

-- name: CountStreams :one
SELECT count(*) FROM streams WHERE org_id = @org_id AND signal <> @except_signal;

-- name: InsertStream :execrows
INSERT INTO streams (id, org_id, signal, name) VALUES (@id, @org_id, @signal, @name)
ON CONFLICT (org_id, signal, name) DO NOTHING;

-- name: SwapFields :execrows
UPDATE streams SET fields = @fields, schema_version = schema_version + 1 WHERE id = @id AND schema_version = @version;

-- name: UpdateStream :one
UPDATE streams SET
    retention_days = coalesce(sqlc.narg('retention_days'), retention_days),
    write_mode = coalesce(sqlc.narg('write_mode'), write_mode),
    indexed_fields = coalesce(sqlc.narg('indexed_fields')::text[], indexed_fields),
    max_fields = coalesce(sqlc.narg('max_fields'), max_fields)
WHERE id = @id
RETURNING *;

-- name: DeleteStream :one
DELETE FROM streams WHERE id = @id RETURNING *;

-- name: Streams :many
SELECT sqlc.embed(s),
    coalesce(g.segments, 0)::bigint AS segments, coalesce(g.row_count, 0)::bigint AS row_count, coalesce(g.bytes, 0)::bigint AS bytes,
    coalesce(g.min_time, 0)::bigint AS min_time, coalesce(g.max_time, 0)::bigint AS max_time
FROM streams s
LEFT JOIN (
    SELECT u.stream_id, sum(u.segments) AS segments, sum(u.row_count) AS row_count, sum(u.bytes) AS bytes, min(u.min_time) AS min_time, max(u.max_time) AS max_time
    FROM (
        SELECT stream_id, 1 AS segments, segment_rows.row_count, data_length + index_length AS bytes, min_time, max_time
        FROM segment_rows WHERE state = 'live' AND stream_id IN (SELECT id FROM streams WHERE streams.org_id = @org_id)
        UNION ALL
        SELECT stream_id, manifests.segments, manifests.row_count, manifests.bytes, min_time, max_time
        FROM manifests WHERE state = 'live' AND stream_id IN (SELECT id FROM streams WHERE streams.org_id = @org_id)
    ) u
    GROUP BY u.stream_id
) g ON g.stream_id = s.id
WHERE s.org_id = @org_id AND (@signal::smallint = 0 OR s.signal = @signal::smallint)
ORDER BY s.signal, s.name;
