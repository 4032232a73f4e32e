-- The groups that have a position in a queue that is there, by name. One probe
-- per group; only positions in deleted queues are looked through one by one.
-- Indexes: cursors_group, log_partitions_pkey, queues_pkey.
WITH RECURSIVE g(name) AS (
    (SELECT c.group_name FROM cursors c ORDER BY c.group_name LIMIT 1)
    UNION ALL
    SELECT (SELECT c.group_name FROM cursors c WHERE c.group_name > g.name ORDER BY c.group_name LIMIT 1)
      FROM g WHERE g.name IS NOT NULL
)
SELECT g.name FROM g
 WHERE g.name IS NOT NULL
   AND EXISTS (SELECT FROM cursors c
                 JOIN log_partitions p ON p.id = c.partition_id
                 JOIN queues q ON q.id = p.queue_id
                WHERE c.group_name = g.name AND q.deleted_at IS NULL)
 ORDER BY g.name
