-- name: Pin :many
-- One row a key; parts and wals of a key are comma-joined lists of the same length. A key that is there keeps its body hash and its owners; only parts it did not
-- have are added, and only for the same body. Keys come sorted, so that two groups never lock in opposite orders.
INSERT INTO batch_owner AS b (org_id, key, body_hash, parts, wals)
SELECT unnest(@orgs::text[])::uuid, unnest(@keys::bytea[]), unnest(@hashes::bytea[]),
    string_to_array(unnest(@parts::text[]), ',')::uuid[], string_to_array(unnest(@wals::text[]), ',')::uuid[]
ON CONFLICT (org_id, key) DO UPDATE SET
    parts = b.parts || ARRAY(SELECT u.p FROM ROWS FROM (unnest(excluded.parts), unnest(excluded.wals)) AS u(p, w)
        WHERE b.body_hash = excluded.body_hash AND u.p <> ALL (b.parts) ORDER BY u.p),
    wals = b.wals || ARRAY(SELECT u.w FROM ROWS FROM (unnest(excluded.parts), unnest(excluded.wals)) AS u(p, w)
        WHERE b.body_hash = excluded.body_hash AND u.p <> ALL (b.parts) ORDER BY u.p)
RETURNING org_id, key, body_hash, parts, wals;

-- name: DeleteOldPins :execrows
DELETE FROM batch_owner WHERE pinned_at < now() - make_interval(secs => @age_secs::float8);
