-- name: Snapshot :one
-- One statement, hence one snapshot: the streams asked for, their live segments that overlap [start_time, end_time), and every WAL that counts. Each relation
-- comes as one array a column, all in the same order, which costs a fraction of a row per segment. A wanted name of '' stands for all streams of its signal.
WITH wanted AS (
    SELECT unnest(@signals::smallint[]) AS signal, unnest(@names::text[]) AS name
), st AS MATERIALIZED (
    SELECT s.* FROM streams s
    WHERE s.org_id = @org_id::uuid AND EXISTS (SELECT 1 FROM wanted w WHERE w.signal = s.signal AND w.name IN (s.name, ''))
)
SELECT now()::timestamptz AS at, a.*, b.*, c.*
FROM (
    SELECT coalesce(array_agg(st.id), '{}')::uuid[] AS stream_ids,
        coalesce(array_agg(st.signal), '{}')::smallint[] AS stream_signals,
        coalesce(array_agg(st.name), '{}')::text[] AS stream_names,
        coalesce(array_agg(st.schema_version), '{}')::bigint[] AS stream_versions,
        coalesce(array_agg(st.fields::text), '{}')::text[] AS stream_fields,
        coalesce(array_agg(st.retention_days), '{}')::integer[] AS stream_retentions,
        coalesce(array_agg(st.write_mode), '{}')::text[] AS stream_modes,
        coalesce(array_agg(array_to_json(st.indexed_fields)::text), '{}')::text[] AS stream_indexed,
        coalesce(array_agg(st.max_fields), '{}')::integer[] AS stream_maxima,
        coalesce(array_agg(st.created_at), '{}')::timestamptz[] AS stream_created
    FROM st
) a, (
    SELECT coalesce(array_agg(g.id), '{}')::uuid[] AS ids,
        coalesce(array_agg(g.stream_id), '{}')::uuid[] AS streams,
        coalesce(array_agg(g.signal), '{}')::smallint[] AS signals,
        coalesce(array_agg(g.min_time), '{}')::bigint[] AS min_times,
        coalesce(array_agg(g.max_time), '{}')::bigint[] AS max_times,
        coalesce(array_agg(g.row_count), '{}')::bigint[] AS row_counts,
        coalesce(array_agg(g.level), '{}')::smallint[] AS levels,
        coalesce(array_agg(g.schema_version), '{}')::bigint[] AS schema_versions,
        coalesce(array_agg(g.data_key), '{}')::text[] AS data_keys,
        coalesce(array_agg(g.data_offset), '{}')::bigint[] AS data_offsets,
        coalesce(array_agg(g.data_length), '{}')::bigint[] AS data_lengths,
        coalesce(array_agg(g.data_sum), '{}')::text[] AS data_sums,
        coalesce(array_agg(g.index_key), '{}')::text[] AS index_keys,
        coalesce(array_agg(g.index_offset), '{}')::bigint[] AS index_offsets,
        coalesce(array_agg(g.index_length), '{}')::bigint[] AS index_lengths,
        coalesce(array_agg(g.index_sum), '{}')::text[] AS index_sums,
        coalesce(array_agg(coalesce(g.wal_id::text, '')), '{}')::text[] AS wals,
        coalesce(array_agg(g.wal_from), '{}')::bigint[] AS wal_froms,
        coalesce(array_agg(g.wal_to), '{}')::bigint[] AS wal_tos
    FROM (
        SELECT segments.* FROM segments
        WHERE segments.stream_id = ANY (ARRAY(SELECT st.id FROM st)) AND segments.state = 'live'
            AND segments.max_time >= @start_time::bigint AND segments.min_time < @end_time::bigint
        ORDER BY segments.stream_id, segments.min_time, segments.id
    ) g
) b, (
    SELECT coalesce(array_agg(w.id), '{}')::uuid[] AS registry_ids,
        coalesce(array_agg(w.node_id), '{}')::text[] AS registry_nodes,
        coalesce(array_agg(w.addr), '{}')::text[] AS registry_addrs,
        coalesce(array_agg(w.incarnation), '{}')::bigint[] AS registry_incarnations,
        coalesce(array_agg(w.position), '{}')::bigint[] AS registry_positions,
        coalesce(array_agg(w.clean), '{}')::boolean[] AS registry_clean,
        coalesce(array_agg(coalesce(w.published_at, 'epoch')), '{}')::timestamptz[] AS registry_published
    FROM wals w WHERE w.state <> 'discarded'
) c;
