-- Whether group $1 has a position in a queue that is there. Only positions in deleted
-- queues are looked through one by one. Indexes: cursors_group, log_partitions_pkey, queues_pkey.
SELECT EXISTS (
    SELECT FROM cursors c
     CROSS JOIN LATERAL (SELECT x.queue_id FROM log_partitions x WHERE x.id = c.partition_id LIMIT 1) p
     CROSS JOIN LATERAL (SELECT x.deleted_at FROM queues x WHERE x.id = p.queue_id LIMIT 1) q
     WHERE c.group_name = $1 AND q.deleted_at IS NULL)
