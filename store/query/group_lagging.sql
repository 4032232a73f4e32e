-- Of the partitions of spans of queues the $7 in which a group has owed something
-- longest, those from before $6 where that is given: of every group there, and of
-- those named (group_lag_1).
SELECT span, group_name, partition_id, number, partition_name, log_start, log_end, next_offset, known, acked,
       committed_at, lease_end, lease_until, pending, oldest_at, age_ms
  FROM group_lag_1($1, $2, $3, true, $4, $5)
 WHERE group_name IS NOT NULL AND oldest_at IS NOT NULL AND ($6::timestamptz IS NULL OR oldest_at < $6)
 ORDER BY oldest_at, span, number, group_name
 LIMIT $7
