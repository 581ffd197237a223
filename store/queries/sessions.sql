-- name: InsertSession :exec
INSERT INTO sessions (id, user_id, hash, address, agent, expires_at) VALUES (@id, @user_id, @hash, @address, @agent, @expires_at);

-- name: LockSession :one
SELECT * FROM sessions WHERE id = @id FOR UPDATE;

-- name: WasToken :one
SELECT EXISTS (SELECT 1 FROM former_refresh_tokens WHERE hash = @hash AND session_id = @session_id);

-- name: InsertFormerToken :exec
INSERT INTO former_refresh_tokens (hash, session_id, rotated_at) VALUES (@hash, @session_id, @rotated_at);

-- name: RenewSession :exec
UPDATE sessions SET hash = @hash, expires_at = @expires_at WHERE id = @id;

-- name: RevokeSession :execrows
UPDATE sessions SET revoked_at = coalesce(revoked_at, now()) WHERE id = @id;

-- name: RevokeUserSessions :exec
UPDATE sessions SET revoked_at = now() WHERE user_id = @user_id AND id <> @keep AND revoked_at IS NULL;

-- name: SessionUser :one
SELECT sqlc.embed(u) FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.id = @id AND s.revoked_at IS NULL AND s.expires_at > @now::timestamptz;

-- name: DeleteOldSessions :execrows
DELETE FROM sessions WHERE expires_at < now() - interval '1 day';
