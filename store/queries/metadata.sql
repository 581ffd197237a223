-- name: UpsertMetadata :exec
INSERT INTO metric_metadata AS m (org_id, name, type, unit, help)
SELECT @org_id::uuid, unnest(@names::text[]), unnest(@types::text[]), unnest(@units::text[]), unnest(@helps::text[])
ON CONFLICT (org_id, name) DO UPDATE SET type = excluded.type, unit = excluded.unit, help = excluded.help
WHERE (m.type, m.unit, m.help) IS DISTINCT FROM (excluded.type, excluded.unit, excluded.help);

-- name: MetadataOf :many
SELECT name, type, unit, help FROM metric_metadata WHERE org_id = @org_id AND name = ANY(@names::text[]) ORDER BY name;

-- name: Metadata :many
SELECT name, type, unit, help FROM metric_metadata WHERE org_id = @org_id ORDER BY name;
