-- The queues in which group $1 has a position or a subscription, by name.
-- Indexes: cursors_group, log_partitions_pkey, subscriptions_group, queues_pkey.
SELECT q.name
  FROM (SELECT p.queue_id
          FROM cursors c
         CROSS JOIN LATERAL (SELECT x.queue_id FROM log_partitions x WHERE x.id = c.partition_id LIMIT 1) p
         WHERE c.group_name = $1
         UNION
        SELECT s.queue_id FROM subscriptions s WHERE s.group_name = $1) u
 CROSS JOIN LATERAL (SELECT x.id, x.name, x.deleted_at FROM queues x WHERE x.id = u.queue_id LIMIT 1) q
 WHERE q.deleted_at IS NULL
 ORDER BY q.name
