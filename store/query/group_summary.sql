-- What groups owe in spans of queues, a row for each span and group there (group_lag_1).
-- The group null owes all that is stored; furthest, in its row alone, is what the
-- group that is furthest behind owes, partition by partition, null where there is none.
WITH l AS MATERIALIZED (
    SELECT * FROM group_lag_1($1, $2, $3, true, '{}', '{}')
), furthest AS MATERIALIZED (
    SELECT x.span, sum(x.pending)::bigint AS pending
      FROM (SELECT l.span, max(l.pending) AS pending FROM l WHERE l.group_name IS NOT NULL GROUP BY l.span, l.partition_id) x
     GROUP BY x.span
)
SELECT s.*, f.pending
  FROM (SELECT span, group_name, count(*) AS partitions, count(*) FILTER (WHERE known) AS positions,
               count(*) FILTER (WHERE pending > 0) AS behind, COALESCE(sum(pending), 0)::bigint AS pending,
               count(lease_until) AS leases, max(committed_at) AS committed_at, min(oldest_at) AS oldest_at, max(age_ms) AS age_ms
          FROM l GROUP BY span, group_name) s
  LEFT JOIN furthest f ON f.span = s.span AND s.group_name IS NULL
 ORDER BY s.span, s.group_name
