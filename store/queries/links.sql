-- name: CountLinks :one
SELECT count(*) FROM links WHERE org_id = @org_id;

-- name: LinkOf :one
SELECT id FROM links WHERE org_id = @org_id AND owner_id = @owner_id AND hash = @hash;

-- name: InsertLink :exec
INSERT INTO links (id, org_id, owner_id, hash, state, used_at) VALUES (@id, @org_id, @owner_id, @hash, @state, @used_at);

-- name: Link :one
SELECT state, used_at FROM links WHERE id = @id AND org_id = @org_id;

-- name: TouchLink :exec
-- Once a day at most: reading must not cost a write each time.
UPDATE links SET used_at = @used_at WHERE id = @id AND org_id = @org_id AND used_at < sqlc.arg('used_at')::timestamptz - interval '1 day';

-- name: DeleteOldLinks :execrows
DELETE FROM links WHERE used_at < now() - make_interval(secs => @age_seconds);
