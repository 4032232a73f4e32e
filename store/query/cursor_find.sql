-- The positions of group $1 in the partitions $2. Indexes: cursors_pkey, log_partitions_pkey, queues_pkey.
SELECT c.partition_id, c.next_offset, COALESCE(c.committed, c.next_offset), c.leader_epoch, c.metadata, c.committed_at, c.kafka, q.name, q.topic_id, p.number
  FROM unnest($2::bigint[]) s(partition_id)
 CROSS JOIN LATERAL (SELECT x.* FROM cursors x WHERE x.partition_id = s.partition_id AND x.group_name = $1 LIMIT 1) c
 CROSS JOIN LATERAL (SELECT x.number, x.queue_id FROM log_partitions x WHERE x.id = c.partition_id LIMIT 1) p
 CROSS JOIN LATERAL (SELECT x.name, x.topic_id, x.deleted_at FROM queues x WHERE x.id = p.queue_id LIMIT 1) q
 WHERE q.deleted_at IS NULL
 ORDER BY c.partition_id
