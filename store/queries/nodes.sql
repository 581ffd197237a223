-- name: NextIncarnation :one
INSERT INTO node_incarnations AS ni (id, incarnation)
VALUES (@id, @at_least)
ON CONFLICT (id) DO UPDATE SET incarnation = greatest(ni.incarnation + 1, excluded.incarnation)
RETURNING incarnation;

-- name: RaiseIncarnation :exec
INSERT INTO node_incarnations AS ni (id, incarnation)
VALUES (@id, @incarnation)
ON CONFLICT (id) DO UPDATE SET incarnation = greatest(ni.incarnation, excluded.incarnation);

-- name: UpsertNode :execrows
-- The row of a newer incarnation stays as it is.
INSERT INTO nodes AS n (id, addr, roles, milli_cpu, placement_id, version, incarnation, started_at, heartbeat_at, draining, knows)
VALUES (@id, @addr, @roles::text[], @milli_cpu, @placement_id, @version, @incarnation, now(), now(), @draining, @knows)
ON CONFLICT (id) DO UPDATE SET
    addr = excluded.addr, roles = excluded.roles, milli_cpu = excluded.milli_cpu, placement_id = excluded.placement_id, version = excluded.version,
    started_at = CASE WHEN n.incarnation = excluded.incarnation THEN n.started_at ELSE excluded.started_at END,
    incarnation = excluded.incarnation, heartbeat_at = excluded.heartbeat_at, draining = excluded.draining, knows = excluded.knows
WHERE n.incarnation <= excluded.incarnation;

-- name: Beat :one
-- system names the database's history: another server, or the same after a failover or a restore, has another name.
SELECT now()::timestamptz AS at,
    coalesce((SELECT ni.incarnation FROM node_incarnations ni WHERE ni.id = @id), 0)::bigint AS incarnation,
    ((SELECT c.system_identifier FROM pg_control_system() c)::text || '-' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::text AS system;

-- name: Positions :many
SELECT id, position FROM wals WHERE id = ANY (CAST(@ids::text[] AS uuid[])) AND state <> 'discarded';

-- name: DeleteFormerNode :execrows
DELETE FROM nodes WHERE id = @id AND incarnation < @incarnation;

-- name: DeleteNode :execrows
DELETE FROM nodes WHERE id = @id AND incarnation = @incarnation;

-- name: Members :many
-- A node holds one WAL; should the registry name several of one incarnation, the latest taken counts.
SELECT DISTINCT ON (n.id) sqlc.embed(n), coalesce(w.id::text, '')::text AS wal, extract(epoch FROM now() - n.heartbeat_at)::float8 AS age_secs
FROM nodes n
LEFT JOIN wals w ON w.node_id = n.id AND w.incarnation = n.incarnation AND w.state <> 'discarded'
WHERE n.heartbeat_at >= now() - make_interval(secs => @silence_secs::float8)
ORDER BY n.id, w.taken_at DESC;

-- name: DeleteSilentNodes :execrows
DELETE FROM nodes WHERE heartbeat_at < now() - make_interval(secs => @silence_secs::float8);

-- name: AllKnow :one
-- Whether every node that has a row knows a version of the schema.
SELECT NOT EXISTS (SELECT 1 FROM nodes WHERE knows < @version) AS all_know;

-- name: Notify :exec
SELECT pg_notify(sqlc.arg('channel')::text, sqlc.arg('payload')::text);
