-- Where partition $1 belongs: its queue's name, its own, its log start. No row where
-- either is gone. Indexes: log_partitions_pkey, queues_pkey.
SELECT q.name, p.name, p.start_offset
  FROM log_partitions p
 CROSS JOIN LATERAL (SELECT x.name, x.deleted_at FROM queues x WHERE x.id = p.queue_id LIMIT 1) q
 WHERE p.id = $1 AND q.deleted_at IS NULL
