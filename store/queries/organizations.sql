-- name: Organization :one
SELECT * FROM organizations WHERE id = @id;

-- name: OrganizationsOf :many
SELECT o.* FROM organizations o JOIN memberships m ON m.org_id = o.id WHERE m.user_id = @user_id ORDER BY o.created_at, o.slug;

-- name: InsertOrganization :exec
INSERT INTO organizations (id, slug, name, retention_days, intake_qps, query_qps, quota_bytes, created_at, installation)
VALUES (@id, @slug, @name, @retention_days, @intake_qps, @query_qps, @quota_bytes, @created_at, @installation);

-- name: UpdateOrganization :one
UPDATE organizations SET
    slug = coalesce(sqlc.narg('slug'), slug),
    name = coalesce(sqlc.narg('name'), name),
    retention_days = coalesce(sqlc.narg('retention_days'), retention_days),
    intake_qps = coalesce(sqlc.narg('intake_qps'), intake_qps),
    query_qps = coalesce(sqlc.narg('query_qps'), query_qps),
    quota_bytes = coalesce(sqlc.narg('quota_bytes'), quota_bytes)
WHERE id = @id
RETURNING *;

-- name: CountOrganizations :one
SELECT count(*) FROM organizations;

-- name: DeleteOrganization :one
DELETE FROM organizations WHERE id = @id RETURNING installation;

-- name: LockInstallation :exec
-- Serialises the rare decisions about all users or all organizations: the first user, the last organization.
SELECT pg_advisory_xact_lock(5471290333);

-- name: Organizations :many
SELECT * FROM organizations ORDER BY created_at, slug;
