-- name: InsertToken :exec
INSERT INTO api_tokens (id, org_id, user_id, name, hash, scopes, created_at, expires_at)
VALUES (@id, @org_id, sqlc.narg('user_id'), @name, @hash, @scopes, @created_at, sqlc.narg('expires_at'));

-- name: Token :one
SELECT sqlc.embed(t), o.slug, coalesce(u.email, '')::text AS email, coalesce(m.role, 0)::smallint AS maker_role, o.installation
FROM api_tokens t
JOIN organizations o ON o.id = t.org_id
LEFT JOIN users u ON u.id = t.user_id
LEFT JOIN memberships m ON m.user_id = t.user_id AND m.org_id = t.org_id
WHERE t.id = @id;

-- name: Tokens :many
SELECT sqlc.embed(t), o.slug, coalesce(u.email, '')::text AS email, coalesce(m.role, 0)::smallint AS maker_role, o.installation
FROM api_tokens t
JOIN organizations o ON o.id = t.org_id
LEFT JOIN users u ON u.id = t.user_id
LEFT JOIN memberships m ON m.user_id = t.user_id AND m.org_id = t.org_id
WHERE t.org_id = @org_id
ORDER BY t.created_at, t.id;

-- name: TouchToken :exec
-- Once a minute at most: it is a write on the path of every request.
UPDATE api_tokens SET last_used_at = sqlc.arg('at')::timestamptz
WHERE id = @id AND (last_used_at IS NULL OR last_used_at + interval '1 minute' < sqlc.arg('at')::timestamptz);

-- name: DeleteToken :execrows
DELETE FROM api_tokens WHERE id = @id AND org_id = @org_id AND (@maker::text = '' OR user_id::text = @maker::text);
