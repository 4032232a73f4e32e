-- The idempotent producers of partition $1 that wrote in the last $2 seconds, by
-- id, at most $3: epoch, last sequence and time. Of a producer the newest row counts.
-- Index: producers_pkey.
SELECT DISTINCT ON (r.producer_id) r.producer_id, r.epoch, r.last_seqs[cardinality(r.last_seqs)], r.updated_at
  FROM producers r
 WHERE r.partition_id = $1 AND r.updated_at > clock_timestamp() - make_interval(secs => $2)
   AND cardinality(r.last_seqs) > 0
 ORDER BY r.producer_id, r.end_offset DESC LIMIT $3
