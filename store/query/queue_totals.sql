-- What the queues hold, by name: all of them, or queue $1. pending is what the
-- group that is furthest behind owes, partition by partition; all that is stored
-- where there is no group. Indexes: queues_name, log_partitions_queue_id_number_key,
-- log_txns_pkey, and those of group_lag_1.
SELECT q.name, count(p.id) AS partitions, COALESCE(sum(GREATEST(COALESCE(t.next_offset, 0) - p.start_offset, 0)), 0)::bigint AS messages,
       COALESCE(sum(COALESCE(w.pending, GREATEST(COALESCE(t.next_offset, 0) - p.start_offset, 0))), 0)::bigint AS pending,
       COALESCE(max(w.groups), 0) AS groups
  FROM queues q
  LEFT JOIN log_partitions p ON p.queue_id = q.id
  LEFT JOIN LATERAL (SELECT x.end_offset + 1 AS next_offset FROM log_txns x WHERE x.partition_id = p.id
                      ORDER BY x.end_offset DESC LIMIT 1) t ON true
  LEFT JOIN (SELECT l.partition_id, max(l.pending) AS pending, count(*) AS groups FROM group_lag_1(NULL, $1) l GROUP BY l.partition_id) w
         ON w.partition_id = p.id
 WHERE q.deleted_at IS NULL AND ($1::bigint IS NULL OR q.id = $1)
 GROUP BY q.id, q.name
 ORDER BY q.name
