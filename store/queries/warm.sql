-- name: LiveSegments :many
-- A page of the live segments of all organizations, newest record first, after a place in that order.
SELECT * FROM segment_rows WHERE state = 'live' AND (max_time, id) < (@max_time::bigint, @id::uuid) ORDER BY max_time DESC, id DESC LIMIT @most::integer;
