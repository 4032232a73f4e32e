-- What the groups named owe in spans of queues, a row for each of their partitions, by
-- span, number and group (group_lag_1).
SELECT span, group_name, partition_id, number, partition_name, log_start, log_end, next_offset, known, acked,
       committed_at, lease_end, lease_until, pending, oldest_at, age_ms
  FROM group_lag_1($1, $2, $3, false, $4, $5)
 ORDER BY span, number, group_name
