-- What of an organization's limits the routers may let through: one row an organization and class, so that whoever changes one router's part sees and locks all
-- of them. leases has an object a router: t, the time of its report; i, its incarnation; d, the requests a second that it sees; h, the rate that it lets through at
-- that time; m, the organization's limit as it knows it; g, the rate that it was granted then.
CREATE TABLE rate_leases (
    org_id      uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
    class       text NOT NULL,
    reported_at double precision NOT NULL, -- of the latest report, seconds since the epoch, as are the times in leases
    leases      jsonb NOT NULL,
    PRIMARY KEY (org_id, class)
) WITH (fillfactor = 50);

-- rate_leases_after is a row's leases after the report mine of the router me.
--
-- The parts of all never add up to more than the limit. A part counts as the larger of what was granted and what its router last said that it lets through: one that
-- gets smaller is given to others only once its router has said that it keeps to it.
--
-- A router without a report for ttl is gone, and its part free; unless nobody reported for that long: then the database was away, everybody went on with the part
-- that he had, and is given another ttl to say so.
--
-- Parts are in proportion to the demand, where a router that sees next to none counts as one with a tenth of the mean. Idle routers, which see none at all, have no
-- part; but as long as the demand permits, a tenth of an equal part is left for each of them, so that its first request finds something.
CREATE FUNCTION rate_leases_after(leases jsonb, reported_at float8, me text, mine jsonb, routers int, ttl float8) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    WITH own AS (
        SELECT (mine ->> 't')::float8 AS t, (mine ->> 'd')::float8 AS d, (mine ->> 'm')::float8 AS m, reported_at < (mine ->> 't')::float8 - ttl AS away,
            CASE WHEN leases -> me ->> 'i' = mine ->> 'i' THEN (mine ->> 'h')::float8 ELSE 0 END AS kept -- what need not be free: it has it
    ), other AS (
        SELECT o.key, CASE WHEN own.away THEN o.value || jsonb_build_object('t', own.t) ELSE o.value END AS value, (o.value ->> 'd')::float8 AS d,
            greatest((o.value ->> 'g')::float8, (o.value ->> 'h')::float8) AS part
        FROM jsonb_each(leases) o, own
        WHERE o.key <> me AND (own.away OR (o.value ->> 't')::float8 >= own.t - ttl)
    ), total AS (
        SELECT count(*) + 1 AS n, coalesce(sum(other.d), 0) + (SELECT own.d FROM own) AS d, coalesce(sum(other.part), 0) AS part,
            coalesce(jsonb_object_agg(other.key, other.value), '{}') AS entries
        FROM other
    ), reserve AS (
        SELECT CASE WHEN total.d <= own.m - idle.qps THEN idle.qps ELSE 0 END AS qps
        FROM own, total, LATERAL (SELECT 0.1 * own.m * greatest(routers - total.n, 0) / greatest(routers, total.n) AS qps) idle
    ), share AS (
        SELECT (own.m - reserve.qps) * CASE WHEN total.d = 0 THEN 1.0 / total.n
            ELSE greatest(own.d, least_d) / (greatest(own.d, least_d) + (SELECT coalesce(sum(greatest(other.d, least_d)), 0) FROM other)) END AS qps
        FROM own, total, reserve, LATERAL (SELECT 0.1 * total.d / total.n AS least_d) l
    )
    SELECT CASE WHEN (leases -> me ->> 'i')::bigint > (mine ->> 'i')::bigint THEN leases -- a newer process of the router has reported
        WHEN own.m = 0 THEN total.entries
        ELSE total.entries || jsonb_build_object(me, mine || jsonb_build_object('g', least(share.qps, greatest(own.m - total.part, own.kept, 0)))) END
    FROM own, total, share
$$;
