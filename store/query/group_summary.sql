-- A line per group and queue: of group $1 and queue $2, or of all where null (group_lag_1).
SELECT group_name, queue_name, count(*) AS partitions, count(*) FILTER (WHERE known) AS positions,
       count(*) FILTER (WHERE pending > 0) AS behind, COALESCE(sum(pending), 0)::bigint AS pending,
       count(lease_until) AS leases, max(committed_at) AS committed_at, min(oldest_at) AS oldest_at, max(age_ms) AS age_ms
  FROM group_lag_1($1, $2)
 GROUP BY group_name, queue_name
 ORDER BY group_name, queue_name
