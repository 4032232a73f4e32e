-- The partition of queue $1 with the name $2 and its marks.
-- Indexes: log_partitions_queue_id_name_key, log_txns_pkey.
SELECT p.id, p.queue_id, p.number, p.name, p.start_offset,
       COALESCE((SELECT x.end_offset + 1 FROM log_txns x WHERE x.partition_id = p.id
                  ORDER BY x.end_offset DESC LIMIT 1), 0)
  FROM log_partitions p
 WHERE p.queue_id = $1 AND p.name = $2
