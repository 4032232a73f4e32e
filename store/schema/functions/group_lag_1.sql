-- group_lag_1 says how far groups are behind, partition by partition.
--
-- Promise: a row for each partition of each queue in which group p_group (every
-- group, where it is null) has a position or a subscription; of queue p_queue
-- alone where that is given, and then also where a given group has neither. A
-- group that has no position in a partition owes what it would be given first:
-- all from the log start on, or from its subscription on. pending counts offsets,
-- those completed ahead left out; oldest_at is when the first of them was stored.
--
-- Locks: none. Indexes: cursors_group, cursors_pkey, subscriptions_group,
-- subscriptions_pkey, log_partitions_queue_id_number_key, log_txns_pkey,
-- log_segments_pkey (a look each per group and partition).
CREATE FUNCTION group_lag_1(p_group text, p_queue bigint) RETURNS TABLE (
    group_name     text,
    queue_name     text,
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
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH pairs AS (
        SELECT p_group AS grp, p_queue AS queue_id WHERE p_group IS NOT NULL AND p_queue IS NOT NULL
        UNION
        SELECT c.group_name, p.queue_id FROM cursors c JOIN log_partitions p ON p.id = c.partition_id
         WHERE p_queue IS NULL AND c.group_name = p_group
        UNION
        SELECT c.group_name, p.queue_id FROM log_partitions p JOIN cursors c ON c.partition_id = p.id
         WHERE p_group IS NULL AND (p_queue IS NULL OR p.queue_id = p_queue)
        UNION
        SELECT s.group_name, s.queue_id FROM subscriptions s
         WHERE p_queue IS NULL AND s.group_name = p_group
        UNION
        SELECT s.group_name, s.queue_id FROM subscriptions s
         WHERE p_group IS NULL AND (p_queue IS NULL OR s.queue_id = p_queue)
    ), marks AS (
        SELECT g.grp, q.name AS queue_name, p.id, p.number, p.name, p.start_offset,
               COALESCE(t.next_offset, 0) AS end_offset, c.next_offset AS at, c.acked, c.committed_at,
               CASE WHEN c.lease_until > clock_timestamp() THEN c.lease_end END AS lease_end,
               CASE WHEN c.lease_until > clock_timestamp() THEN c.lease_until END AS lease_until,
               GREATEST(p.start_offset, COALESCE(c.next_offset,
                   CASE WHEN s.created_at IS NULL THEN p.start_offset ELSE first_after_1(p.id, s.created_at) END)) AS owed
          FROM pairs g
          JOIN queues q ON q.id = g.queue_id AND q.deleted_at IS NULL
          JOIN log_partitions p ON p.queue_id = q.id
          LEFT JOIN LATERAL (SELECT x.* FROM cursors x WHERE x.partition_id = p.id AND x.group_name = g.grp LIMIT 1) c ON true
          LEFT JOIN LATERAL (SELECT x.created_at FROM subscriptions x
                              WHERE x.queue_id = q.id AND x.group_name = g.grp LIMIT 1) s ON true
          LEFT JOIN LATERAL (SELECT x.end_offset + 1 AS next_offset FROM log_txns x WHERE x.partition_id = p.id
                              ORDER BY x.end_offset DESC LIMIT 1) t ON true
    ), counted AS (
        -- Mostly none, and looking at none was a quarter of what a row cost.
        SELECT m.*, CASE WHEN cardinality(m.acked) > 0
                         THEN ARRAY(SELECT a FROM unnest(m.acked) a WHERE a >= m.owed AND a < m.end_offset ORDER BY a)
                         ELSE '{}' END AS ahead
          FROM marks m
    )
    SELECT m.grp, m.queue_name, m.id, m.number, m.name, m.start_offset, m.end_offset, m.owed, m.at IS NOT NULL, m.ahead,
           m.committed_at, m.lease_end, m.lease_until, w.pending, o.created_at,
           (EXTRACT(EPOCH FROM clock_timestamp() - o.created_at) * 1000)::bigint
      FROM counted m
     CROSS JOIN LATERAL (SELECT GREATEST(m.end_offset - m.owed - cardinality(m.ahead), 0) AS pending) w
      LEFT JOIN LATERAL (SELECT x.created_at FROM log_segments x
                          WHERE w.pending > 0 AND x.partition_id = m.id AND x.end_offset >= m.owed
                          ORDER BY x.end_offset LIMIT 1) o ON true
     ORDER BY m.grp, m.queue_name, m.number;
END
$$;
