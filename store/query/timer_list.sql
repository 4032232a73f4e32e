-- A queue's timers after a key, by key, without their payloads; $3 at most.
SELECT t.timer_key, t.partition, t.txn, NULL::bytea, t.id_hi, t.id_lo, t.deliver_at, t.attempts, t.last_error
  FROM timers t WHERE t.queue = $1 AND t.timer_key > $2
 ORDER BY t.timer_key LIMIT $3
