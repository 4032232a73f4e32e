-- The positions of group $1 in the partitions $2. Indexes: cursors_pkey, log_partitions_pkey, queues_pkey.
SELECT c.partition_id, c.next_offset, c.leader_epoch, c.metadata, c.committed_at, c.kafka, q.name, q.topic_id, p.number
  FROM unnest($2::bigint[]) s(partition_id)
  JOIN cursors c ON c.partition_id = s.partition_id AND c.group_name = $1
  JOIN log_partitions p ON p.id = c.partition_id
  JOIN queues q ON q.id = p.queue_id AND q.deleted_at IS NULL
 ORDER BY c.partition_id
