-- The timers to be fired next, $2 at most, those due now with their payload, and
-- how long each has to wait (ms). With a bound $1 (ms ago) those due long
-- before are left out: what has fired since lies dead in the index there.
SELECT t.queue, t.timer_key, t.partition, t.txn, CASE WHEN t.due_at <= statement_timestamp() THEN t.payload END,
       t.id_hi, t.id_lo, t.attempts, ceil(extract(epoch FROM t.due_at - statement_timestamp()) * 1000)::bigint
  FROM timers t
 WHERE t.due_at > COALESCE(statement_timestamp() - $1::bigint * interval '1 millisecond', '-infinity')
 ORDER BY t.due_at LIMIT $2
