-- name: UserByEmail :one
SELECT * FROM users WHERE lower(email) = lower(@email);

-- name: UserByID :one
SELECT * FROM users WHERE id = @id;

-- name: AnyUser :one
SELECT EXISTS (SELECT 1 FROM users);

-- name: InsertUser :exec
INSERT INTO users (id, email, name, password_hash, created_at) VALUES (@id, @email, @name, @password_hash, @created_at);

-- name: SetPassword :execrows
UPDATE users SET password_hash = @password_hash WHERE id = @id;

-- name: DeleteUser :exec
DELETE FROM users WHERE id = @id;

-- name: Memberships :many
SELECT m.org_id, o.slug, o.name, m.role, o.installation FROM memberships m JOIN organizations o ON o.id = m.org_id
WHERE m.user_id = @user_id ORDER BY m.joined_at, o.slug;

-- name: Membership :one
SELECT * FROM memberships WHERE org_id = @org_id AND user_id = @user_id;

-- name: OrganizationMembers :many
SELECT sqlc.embed(u), m.role, m.joined_at FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.org_id = @org_id ORDER BY lower(u.email);

-- name: InsertMembership :exec
INSERT INTO memberships (org_id, user_id, role, joined_at) VALUES (@org_id, @user_id, @role, @joined_at);

-- name: SetRole :exec
UPDATE memberships SET role = @role WHERE org_id = @org_id AND user_id = @user_id;

-- name: DeleteMembership :exec
DELETE FROM memberships WHERE org_id = @org_id AND user_id = @user_id;

-- name: CountMemberships :one
SELECT count(*) FROM memberships WHERE user_id = @user_id;

-- name: CountOwners :one
SELECT count(*) FROM memberships WHERE org_id = @org_id AND role = @owner;

-- name: DeleteOrphans :exec
-- People who belong to no organization any more.
DELETE FROM users u WHERE u.id = ANY (CAST(@ids::text[] AS uuid[])) AND NOT EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id);

-- name: InsertInvite :exec
INSERT INTO invites (hash, user_id, expires_at) VALUES (@hash, @user_id, @expires_at);

-- name: TakeInvite :one
DELETE FROM invites WHERE hash = @hash AND expires_at > @now::timestamptz RETURNING user_id;

-- name: DeleteInvites :exec
DELETE FROM invites WHERE user_id = @user_id;

-- name: DeleteOldInvites :execrows
DELETE FROM invites WHERE expires_at < now();

-- name: LockUser :one
-- Serialises what depends on all memberships of one user.
SELECT * FROM users WHERE id = @id FOR UPDATE;
