-- The next $2 groups with a position, by name from $1 (exclusive) on, each with whether
-- it has one that a Kafka client committed $3 milliseconds ago or earlier. One
-- probe per group, and its positions up to the first such one. Index: cursors_group.
WITH RECURSIVE g(name, n) AS (
    (SELECT c.group_name, 1 FROM cursors c WHERE c.group_name > $1 ORDER BY c.group_name LIMIT 1)
    UNION ALL
    SELECT (SELECT c.group_name FROM cursors c WHERE c.group_name > g.name ORDER BY c.group_name LIMIT 1), g.n + 1
      FROM g WHERE g.name IS NOT NULL AND g.n < $2::integer
)
SELECT g.name, EXISTS (SELECT FROM cursors c
                        WHERE c.group_name = g.name AND c.kafka
                          AND c.committed_at <= clock_timestamp() - $3::bigint * interval '1 millisecond')
  FROM g WHERE g.name IS NOT NULL
 ORDER BY g.name
