-- The partitions of queue $1 from number $2 on, below $3, with their marks, by number.
-- Indexes: log_partitions_queue_id_number_key, log_txns_pkey (one look per partition).
SELECT p.id, p.queue_id, p.number, p.name, p.start_offset, COALESCE(t.next_offset, 0)
  FROM log_partitions p
  LEFT JOIN LATERAL (SELECT x.end_offset + 1 AS next_offset FROM log_txns x WHERE x.partition_id = p.id
                      ORDER BY x.end_offset DESC LIMIT 1) t ON true
 WHERE p.queue_id = $1 AND p.number >= $2 AND p.number < $3
 ORDER BY p.number
