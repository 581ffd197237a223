-- name: LeaseRates :many
-- Rows come sorted, so that two routers never lock in opposite orders. A limit of 0 gives the router's part back.
INSERT INTO rate_leases AS l (org_id, class, reported_at, leases)
SELECT a.org, a.class, t.at, jsonb_build_object(@node::text, jsonb_build_object('t', t.at, 'i', @incarnation::bigint, 'd', a.demand, 'h', a.held, 'm', a.most,
    'g', a.most * (1 - 0.1 * (t.routers - 1) / t.routers)))
FROM (SELECT unnest(@orgs::text[])::uuid AS org, unnest(@classes::text[]) AS class, unnest(@limits::float8[]) AS most, unnest(@demands::float8[]) AS demand, unnest(@held::float8[]) AS held) a
    JOIN organizations o ON o.id = a.org,
    (SELECT extract(epoch FROM coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::float8 AS at, @routers::int AS routers) t
ON CONFLICT (org_id, class) DO UPDATE SET
    leases = rate_leases_after(l.leases, l.reported_at, @node::text, excluded.leases -> @node::text, @routers::int, @ttl_secs::float8),
    reported_at = greatest(l.reported_at, excluded.reported_at)
RETURNING org_id, class, coalesce((leases -> @node::text ->> 'i')::bigint, 0)::bigint AS incarnation, coalesce((leases -> @node::text ->> 'g')::float8, 0)::float8 AS qps;

-- name: DeleteOldRates :execrows
DELETE FROM rate_leases WHERE reported_at < extract(epoch FROM now()) - @age_secs::float8;
