-- The $2 partitions in which a group has owed something for at least $1 ms, the
-- longest first (group_lag_1).
SELECT group_name, queue_name, partition_id, number, partition_name, log_start, log_end, next_offset, known, acked,
       committed_at, lease_end, lease_until, pending, oldest_at, age_ms
  FROM group_lag_1(NULL, NULL)
 WHERE age_ms >= $1
 ORDER BY age_ms DESC, group_name, queue_name, number
 LIMIT $2
