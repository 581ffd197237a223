-- name: Documents :many
-- Those that the user may see, without bodies.
SELECT sqlc.embed(d), coalesce(u.email, '')::text AS email
FROM documents d LEFT JOIN users u ON u.id = d.owner_id
WHERE d.org_id = @org_id AND d.kind = @kind AND (d.shared OR d.owner_id::text = @viewer::text) AND (d.deleted_at IS NOT NULL) = @deleted::boolean
ORDER BY lower(d.name), d.id;

-- name: Document :one
SELECT sqlc.embed(d), coalesce(u.email, '')::text AS email, v.body
FROM documents d
JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
LEFT JOIN users u ON u.id = d.owner_id
WHERE d.id = @id AND d.org_id = @org_id AND d.kind = @kind AND (d.shared OR d.owner_id::text = @viewer::text);

-- name: LockDocument :one
SELECT * FROM documents
WHERE id = @id AND org_id = @org_id AND kind = @kind AND (shared OR owner_id::text = @viewer::text)
FOR NO KEY UPDATE;

-- name: PreferencesID :one
SELECT id FROM documents WHERE org_id = @org_id AND owner_id = @owner_id AND kind = 'preferences';

-- name: CountDocuments :one
-- Deleted ones count: they can come back.
SELECT count(*) AS total, count(*) FILTER (WHERE owner_id::text = @owner_id::text AND NOT shared) AS own FROM documents WHERE org_id = @org_id AND kind = @kind;

-- name: MakeRoom :execrows
-- Deletes for good the document that was deleted longest ago, among the private ones of an owner when one is given.
DELETE FROM documents WHERE id = (
    SELECT d.id FROM documents d
    WHERE d.org_id = @org_id AND d.kind = @kind AND d.deleted_at IS NOT NULL AND (@owner_id::text = '' OR d.owner_id::text = @owner_id::text AND NOT d.shared)
    ORDER BY d.deleted_at, d.id LIMIT 1
);

-- name: InsertDocument :exec
INSERT INTO documents (id, org_id, kind, owner_id, name, shared, version, summary, created_at, updated_at, updated_by)
VALUES (@id, @org_id, @kind, @owner_id, @name, @shared, 1, @summary, @at, @at, @updated_by);

-- name: UpdateDocument :exec
UPDATE documents SET name = @name, shared = @shared, version = @version, summary = @summary, updated_at = @at, updated_by = @updated_by, deleted_at = NULL WHERE id = @id;

-- name: SetDeleted :exec
UPDATE documents SET deleted_at = sqlc.narg('deleted_at'), updated_at = @at, updated_by = @updated_by WHERE id = @id;

-- name: InsertVersion :exec
INSERT INTO document_versions (document_id, version, name, summary, body, made_at, made_by) VALUES (@document_id, @version, @name, @summary, @body, @made_at, @made_by);

-- name: TrimVersions :exec
DELETE FROM document_versions WHERE document_id = @document_id AND version <= @upto;

-- name: Versions :many
SELECT version, name, made_at, made_by FROM document_versions WHERE document_id = @document_id ORDER BY version DESC;

-- name: Version :one
SELECT * FROM document_versions WHERE document_id = @document_id AND version = @version;

-- name: OrphanDocuments :execrows
-- Private documents of people who left the organization: nobody could see or restore them.
UPDATE documents d SET deleted_at = now()
WHERE NOT d.shared AND d.deleted_at IS NULL AND NOT EXISTS (SELECT FROM memberships m WHERE m.org_id = d.org_id AND m.user_id = d.owner_id);

-- name: DeleteOldDocuments :execrows
DELETE FROM documents WHERE deleted_at < now() - make_interval(secs => @age_seconds);
