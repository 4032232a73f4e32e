-- One timer.
SELECT t.timer_key, t.partition, t.txn, t.payload, t.id_hi, t.id_lo, t.deliver_at, t.attempts, t.last_error
  FROM timers t WHERE t.queue = $1 AND t.timer_key = $2
