-- group_lag_1 says how far groups are behind, partition by partition, in spans of
-- queues: span i is the partitions of queue p_queues[i] whose number is from p_from[i]
-- to below p_to[i]. Spans do not overlap.
--
-- Promise: a row for each partition of a span and each of its groups: those named for it,
-- p_groups[j] for span p_span[j]; and with p_every those that have a subscription to
-- the queue or a position in the span, and null, which is a group that has neither.
-- A group that has no position in a partition owes what it would be given first: all
-- from the log start on, or from its subscription on. pending counts offsets, those
-- completed ahead left out; oldest_at is when the first of them was stored.
--
-- Locks: none. Indexes: queues_pkey, log_partitions_queue_id_number_key, log_txns_pkey,
-- cursors_pkey, subscriptions_pkey, log_segments_pkey (a look each per group and
-- partition that owes something). The rest is put together without loops: of some
-- thousand partitions and their groups each would be compared with each.
CREATE FUNCTION group_lag_1(
    p_queues bigint[],
    p_from   integer[],
    p_to     integer[],
    p_every  boolean,
    p_span   integer[],
    p_groups text[]
) RETURNS TABLE (
    span           integer,     -- from 1
    group_name     text,
    partition_id   bigint,
    number         integer,
    partition_name text,
    log_start      bigint,
    log_end        bigint,      -- the next offset
    next_offset    bigint,      -- the group's
    known          boolean,     -- it has a position here
    acked          bigint[],
    committed_at   timestamptz,
    lease_end      bigint,      -- null where no lease is live
    lease_until    timestamptz,
    pending        bigint,
    oldest_at      timestamptz, -- null where nothing is pending
    age_ms         bigint       -- of oldest_at, by the database's clock
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
SET enable_nestloop TO off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH parts AS MATERIALIZED (
        SELECT s.i::integer AS i, p.id, p.number, p.name, p.start_offset, COALESCE(t.end_offset + 1, 0) AS end_offset, t.created_at AS newest
          FROM unnest(p_queues, p_from, p_to) WITH ORDINALITY s(queue_id, lo, hi, i)
         CROSS JOIN LATERAL (SELECT x.deleted_at FROM queues x WHERE x.id = s.queue_id LIMIT 1) q
         CROSS JOIN LATERAL (SELECT x.id, x.number, x.name, x.start_offset FROM log_partitions x
                              WHERE x.queue_id = s.queue_id AND x.number >= s.lo AND x.number < s.hi ORDER BY x.number) p
          LEFT JOIN LATERAL (SELECT x.end_offset, x.created_at FROM log_txns x WHERE x.partition_id = p.id
                              ORDER BY x.end_offset DESC LIMIT 1) t ON true
         WHERE q.deleted_at IS NULL
    ), named AS MATERIALIZED (
        SELECT DISTINCT u.i, u.grp FROM unnest(p_span, p_groups) u(i, grp)
    ), at AS MATERIALIZED (
        SELECT p.i, p.id, c.*
          FROM parts p
         CROSS JOIN LATERAL (SELECT x.group_name AS grp, x.next_offset, x.acked, x.committed_at, x.lease_end, x.lease_until
                               FROM cursors x WHERE p_every AND x.partition_id = p.id OFFSET 0) c
         UNION ALL
        SELECT p.i, p.id, c.*
          FROM parts p
          JOIN named n ON n.i = p.i
         CROSS JOIN LATERAL (SELECT x.group_name, x.next_offset, x.acked, x.committed_at, x.lease_end, x.lease_until
                               FROM cursors x WHERE x.partition_id = p.id AND x.group_name = n.grp LIMIT 1) c
         WHERE NOT p_every
    ), subs AS MATERIALIZED (
        -- At once: a plan made on an empty table may enter the other index, and read all of it.
        SELECT s.i::integer AS i, b.group_name AS grp, b.created_at
          FROM unnest(p_queues) WITH ORDINALITY s(queue_id, i)
          JOIN (SELECT x.queue_id, x.group_name, x.created_at FROM subscriptions x
                 WHERE x.queue_id = ANY (p_queues) OFFSET 0) b ON b.queue_id = s.queue_id
    ), grps AS (
        SELECT x.i, x.grp FROM named x
        UNION
        SELECT x.i, x.grp FROM at x WHERE p_every
        UNION
        SELECT x.i, x.grp FROM subs x WHERE p_every
        UNION
        SELECT u.i, NULL FROM generate_series(1, cardinality(p_queues)) u(i) WHERE p_every
    ), marks AS (
        SELECT g.grp, p.*, c.next_offset AS position, c.acked, c.committed_at,
               CASE WHEN c.lease_until > v_now THEN c.lease_end END AS lease_end,
               CASE WHEN c.lease_until > v_now THEN c.lease_until END AS lease_until,
               GREATEST(p.start_offset, COALESCE(c.next_offset, CASE
                   WHEN b.created_at IS NULL OR b.created_at = '-infinity' THEN p.start_offset
                   WHEN p.newest <= b.created_at THEN p.end_offset
                   ELSE first_after_1(p.id, b.created_at) END)) AS owed
          FROM grps g
          JOIN parts p ON p.i = g.i
          LEFT JOIN at c ON c.id = p.id AND c.grp = g.grp
          LEFT JOIN subs b ON b.i = g.i AND b.grp = g.grp
    ), counted AS (
        -- Mostly none, and looking at none was a quarter of what a row cost.
        SELECT m.*, CASE WHEN cardinality(m.acked) > 0
                         THEN ARRAY(SELECT a FROM unnest(m.acked) a WHERE a >= m.owed AND a < m.end_offset ORDER BY a)
                         ELSE '{}' END AS ahead
          FROM marks m
        OFFSET 0
    )
    SELECT m.i, m.grp, m.id, m.number, m.name, m.start_offset, m.end_offset, m.owed, m.position IS NOT NULL, m.ahead,
           m.committed_at, m.lease_end, m.lease_until, w.pending, o.created_at,
           (EXTRACT(EPOCH FROM v_now - o.created_at) * 1000)::bigint
      FROM counted m
     CROSS JOIN LATERAL (SELECT GREATEST(m.end_offset - m.owed - cardinality(m.ahead), 0) AS pending) w
      LEFT JOIN LATERAL (SELECT x.created_at FROM log_segments x
                          WHERE w.pending > 0 AND x.partition_id = m.id AND x.end_offset >= m.owed
                          ORDER BY x.end_offset LIMIT 1) o ON true;
END
$$;
