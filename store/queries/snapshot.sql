-- name: Snapshot :many
-- One statement, hence one snapshot: the streams asked for, their live segments and manifests that overlap [start_time, end_time), and every WAL that counts.
-- A row is one of them, told by kind (0 the clock, 1 stream, 2 WAL, 3 segment, 4 manifest, whose segments never change and are read apart): the few rows of the first kinds are JSON in doc, the many of the last are columns. A wanted name of ''
-- stands for all streams of its signal. The definition of a stream whose version the caller knows is left out, because a schema of thousands of fields is large.
-- Segments are asked for twice: those of a day at most, which end before day_after_end, and the wider ones, by an index of their own.
WITH wanted AS (
    SELECT unnest(@signals::smallint[]) AS signal, unnest(@names::text[]) AS name
), known AS (
    SELECT unnest(@known_ids::text[])::uuid AS id, unnest(@known_versions::bigint[]) AS version
), st AS MATERIALIZED (
    SELECT s.* FROM streams s
    WHERE s.org_id = @org_id::uuid AND EXISTS (SELECT 1 FROM wanted w WHERE w.signal = s.signal AND w.name IN (s.name, ''))
)
SELECT 0::smallint AS kind, json_build_object('at', now())::text AS doc,
    '00000000-0000-0000-0000-000000000000'::uuid AS id, '00000000-0000-0000-0000-000000000000'::uuid AS stream_id, 0::smallint AS signal,
    0::bigint AS min_time, 0::bigint AS max_time, 0::bigint AS row_count, 0::smallint AS level, 0::bigint AS schema_version,
    ''::text AS data_key, 0::bigint AS data_offset, 0::bigint AS data_length, ''::text AS data_sum,
    ''::text AS index_key, 0::bigint AS index_offset, 0::bigint AS index_length, ''::text AS index_sum,
    NULL::uuid AS wal_id, 0::bigint AS wal_from, 0::bigint AS wal_to, NULL::timestamptz AS created_at
UNION ALL
SELECT 1, json_build_object('id', st.id, 'signal', st.signal, 'name', st.name, 'version', st.schema_version, 'fields', CASE WHEN k.id IS NULL THEN st.fields END,
        'retention_days', st.retention_days, 'write_mode', st.write_mode, 'indexed_fields', st.indexed_fields, 'max_fields', st.max_fields, 'created_at', st.created_at)::text,
    st.id, st.id, 0, 0, 0, 0, 0, 0, '', 0, 0, '', '', 0, 0, '', NULL, 0, 0, NULL
FROM st LEFT JOIN known k ON k.id = st.id AND k.version = st.schema_version
UNION ALL
SELECT 2, json_build_object('id', w.id, 'node', w.node_id, 'addr', w.addr, 'incarnation', w.incarnation, 'position', w.position, 'clean', w.clean, 'published_at', w.published_at)::text,
    w.id, w.id, 0, 0, 0, 0, 0, 0, '', 0, 0, '', '', 0, 0, '', NULL, 0, 0, NULL
FROM wals w WHERE w.state <> 'discarded'
UNION ALL
SELECT 3, '', g.id, g.stream_id, g.signal, g.min_time, g.max_time, g.row_count, g.level, g.schema_version,
    g.data_key, g.data_offset, g.data_length, g.data_sum, g.index_key, g.index_offset, g.index_length, g.index_sum, g.wal_id, g.wal_from, g.wal_to, g.created_at
FROM segment_rows g
WHERE g.stream_id = ANY (ARRAY(SELECT st.id FROM st)) AND g.state = 'live' AND g.max_time >= @start_time::bigint AND g.min_time < @end_time::bigint
    AND g.max_time / 2 - g.min_time / 2 <= 43200000000000 AND g.max_time < @day_after_end::bigint
UNION ALL
SELECT 3, '', g.id, g.stream_id, g.signal, g.min_time, g.max_time, g.row_count, g.level, g.schema_version,
    g.data_key, g.data_offset, g.data_length, g.data_sum, g.index_key, g.index_offset, g.index_length, g.index_sum, g.wal_id, g.wal_from, g.wal_to, g.created_at
FROM segment_rows g
WHERE g.stream_id = ANY (ARRAY(SELECT st.id FROM st)) AND g.state = 'live' AND g.max_time >= @start_time::bigint AND g.min_time < @end_time::bigint
    AND g.max_time / 2 - g.min_time / 2 > 43200000000000
UNION ALL
SELECT 4, '', m.id, m.stream_id, m.signal, m.min_time, m.max_time, m.row_count, 0, 0, '', 0, 0, '', '', 0, 0, '', NULL, 0, 0, NULL
FROM manifests m
WHERE m.stream_id = ANY (ARRAY(SELECT st.id FROM st)) AND m.state = 'live' AND m.max_time >= @start_time::bigint AND m.min_time < @end_time::bigint;
