-- name: InsertAudit :exec
INSERT INTO audit (at, org_id, actor, action, target, outcome, address, request, detail)
VALUES (coalesce(sqlc.narg('at')::timestamptz, now()), sqlc.narg('org_id')::uuid, @actor, @action, @target, @outcome, @address, @request, @detail);

-- name: Audit :many
-- Newest first. An organization's log does not show the installation's own entries.
SELECT * FROM audit
WHERE (sqlc.narg('org_id')::uuid IS NULL OR org_id = sqlc.narg('org_id')::uuid)
    AND (@actor::text = '' OR actor = @actor::text)
    AND (@action::text = '' OR action = @action::text)
    AND (sqlc.narg('before')::timestamptz IS NULL OR at < sqlc.narg('before')::timestamptz)
ORDER BY at DESC, id DESC
LIMIT sqlc.arg('most');
