-- name: LockIncarnation :one
-- Held to the end of the transaction: a newer start of the node waits, and so whoever passed this check is the newest until it commits.
SELECT incarnation FROM node_incarnations WHERE id = @id FOR SHARE;

-- name: LockWAL :one
SELECT * FROM wals WHERE id = @id FOR UPDATE;

-- name: InsertWAL :execrows
INSERT INTO wals (id, node_id, incarnation, addr, identity)
VALUES (@id, @node_id, @incarnation, @addr, @identity)
ON CONFLICT (id) DO NOTHING;

-- name: TakeWAL :exec
UPDATE wals
SET node_id = @node_id, incarnation = @incarnation, addr = @addr, identity = @identity, state = 'active', clean = false, taken_at = now()
WHERE id = @id;

-- name: SetWALState :execrows
UPDATE wals SET state = @state, clean = (@state = 'discarded') WHERE id = @id;

-- name: MoveWAL :execrows
-- The compare-and-set of the position. It also shares the lock that deleting a stream takes alone (see OwnStreams): a publish either sees that a stream is gone,
-- or the deletion sees the published segments.
UPDATE wals SET position = @to_lsn, clean = @clean, published_at = now()
FROM (SELECT pg_advisory_xact_lock_shared(5471290331)) AS shared
WHERE id = @id AND position IS NOT DISTINCT FROM @from_lsn::bigint;

-- name: CleanWAL :exec
UPDATE wals SET clean = true WHERE id = @id AND position = @position AND NOT clean;

-- name: RangeChecksum :one
SELECT checksum FROM wal_ranges WHERE wal_id = @wal_id AND to_lsn = @to_lsn AND from_lsn = @from_lsn;

-- name: DeleteOldRanges :execrows
DELETE FROM wal_ranges WHERE published_at < now() - make_interval(secs => @age_secs::float8);

-- name: OwnStreams :exec
SELECT pg_advisory_xact_lock(5471290331);

-- name: WALs :many
SELECT * FROM wals WHERE state <> 'discarded' ORDER BY id;
