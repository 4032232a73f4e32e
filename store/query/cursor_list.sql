-- All positions of group $1. Indexes: cursors_group, log_partitions_pkey, queues_pkey.
SELECT c.partition_id, c.next_offset, c.leader_epoch, c.metadata, c.committed_at, c.kafka, q.name, q.topic_id, p.number
  FROM cursors c
  JOIN log_partitions p ON p.id = c.partition_id
  JOIN queues q ON q.id = p.queue_id AND q.deleted_at IS NULL
 WHERE c.group_name = $1
 ORDER BY c.partition_id
