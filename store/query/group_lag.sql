-- What group $1 owes, in every partition of its queues or of queue $2 (group_lag_1).
SELECT group_name, queue_name, partition_id, number, partition_name, log_start, log_end, next_offset, known, acked,
       committed_at, lease_end, lease_until, pending, oldest_at, age_ms
  FROM group_lag_1($1, $2)
