-- name: ForeignTables :one
-- How many tables the current schema holds while ours is not among them.
SELECT CASE WHEN bool_or(c.relname = @ours::text) THEN 0 ELSE count(*) END::bigint AS n
FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace;

-- name: LockSchema :exec
-- For the session: one node at a time migrates.
SELECT pg_advisory_lock(5471290334);
