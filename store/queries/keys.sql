-- name: LockKeys :exec
-- Two nodes that find no key yet must not both make a first one.
SELECT pg_advisory_xact_lock(5471290332);

-- name: Keys :many
SELECT * FROM jwt_keys WHERE valid_until IS NULL OR valid_until > @now::timestamptz ORDER BY created_at DESC;

-- name: HasCurrentKey :one
SELECT EXISTS (SELECT 1 FROM jwt_keys WHERE valid_until IS NULL);

-- name: RetireKeys :exec
UPDATE jwt_keys SET valid_until = @retire_at::timestamptz WHERE valid_until IS NULL;

-- name: InsertKey :exec
INSERT INTO jwt_keys (id, secret, created_at) VALUES (@id, @secret, @created_at);

-- name: DeleteOldKeys :execrows
DELETE FROM jwt_keys WHERE valid_until < now() - interval '1 hour';
