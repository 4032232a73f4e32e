-- Up to $4 partitions of queue $1 from number $3 on to which something was written at
-- or after $2, or all of them where that is null, with what was written last.
-- Indexes: log_partitions_queue_id_number_key, log_txns_pkey (a look per partition).
SELECT p.id, p.number, p.name, p.start_offset, COALESCE(t.end_offset, -1), t.created_at
  FROM log_partitions p
  LEFT JOIN LATERAL (SELECT x.end_offset, x.created_at FROM log_txns x WHERE x.partition_id = p.id
                      ORDER BY x.end_offset DESC LIMIT 1) t ON true
 WHERE p.queue_id = $1 AND p.number >= $3 AND ($2::timestamptz IS NULL OR t.created_at >= $2)
 ORDER BY p.number
 LIMIT $4
