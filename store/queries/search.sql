-- name: SearchDocuments :many
-- Views and dashboards whose name has the characters of the text in their order: those that begin with it first, then those that have it as it is, and the
-- shorter first. All is in lower case. One whole number is the key of the sort: with several it takes four times as long.
SELECT id, kind, name, summary FROM documents
WHERE org_id = @org_id AND kind <> 'preferences' AND deleted_at IS NULL AND (shared OR owner_id::text = @viewer::text) AND folded LIKE @loose::text
ORDER BY CASE WHEN folded LIKE @prefix::text THEN 0 WHEN folded LIKE '%' || @prefix::text THEN 1000 ELSE 2000 END + octet_length(folded)
LIMIT sqlc.arg('most');

-- name: SearchStreams :many
-- Streams of logs and traces, as SearchDocuments finds documents. Their names are ASCII. OFFSET 0 keeps the database from making the lower case three times.
SELECT signal, name FROM (
    SELECT signal, name, lower(name COLLATE "C") AS folded FROM streams WHERE org_id = @org_id AND signal <> @except_signal OFFSET 0
) s
WHERE folded LIKE @loose::text
ORDER BY CASE WHEN folded LIKE @prefix::text THEN 0 WHEN folded LIKE '%' || @prefix::text THEN 1000 ELSE 2000 END + octet_length(folded)
LIMIT sqlc.arg('most');
