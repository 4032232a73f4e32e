-- All positions of group $1. Indexes: cursors_group, log_partitions_pkey, queues_pkey.
SELECT c.partition_id, c.next_offset, COALESCE(c.committed, c.next_offset), c.leader_epoch, c.metadata, c.committed_at, c.kafka, q.name, q.topic_id, p.number
  FROM cursors c
 CROSS JOIN LATERAL (SELECT x.number, x.queue_id FROM log_partitions x WHERE x.id = c.partition_id LIMIT 1) p
 CROSS JOIN LATERAL (SELECT x.name, x.topic_id, x.deleted_at FROM queues x WHERE x.id = p.queue_id LIMIT 1) q
 WHERE c.group_name = $1 AND q.deleted_at IS NULL
 ORDER BY c.partition_id
