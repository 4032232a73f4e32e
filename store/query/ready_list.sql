-- What the groups $2 could claim in the queues $1 (pairs), at most $3 rows: i counts
-- the pairs from 1; due_ms is how long it is kept back yet, null for what can be
-- claimed at once. unknown: the group has no position there and never subscribed.
-- A look without locks: claim_1 judges. Indexes: queues_pkey, subscriptions_pkey,
-- log_partitions_queue_id_number_key, cursors_pkey, log_txns_pkey, log_segments_pkey.
SELECT s.i, p.id, c.next_offset IS NULL AND b.created_at IS NULL,
       CASE WHEN h.due > clock_timestamp() THEN ceil(EXTRACT(EPOCH FROM h.due - clock_timestamp()) * 1000)::bigint END
  FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY s(queue_id, group_name, i)
 CROSS JOIN LATERAL (SELECT x.deleted_at, x.delay_seconds FROM queues x WHERE x.id = s.queue_id LIMIT 1) q
  LEFT JOIN LATERAL (SELECT x.created_at FROM subscriptions x
                      WHERE x.queue_id = s.queue_id AND x.group_name = s.group_name LIMIT 1) b ON true
 CROSS JOIN LATERAL (SELECT x.id, x.start_offset FROM log_partitions x WHERE x.queue_id = s.queue_id ORDER BY x.number) p
  LEFT JOIN LATERAL (SELECT x.next_offset, GREATEST(x.lease_until, x.not_before) AS held FROM cursors x
                      WHERE x.partition_id = p.id AND x.group_name = s.group_name LIMIT 1) c ON true
 CROSS JOIN LATERAL (SELECT x.end_offset, x.created_at FROM log_txns x WHERE x.partition_id = p.id
                      ORDER BY x.end_offset DESC LIMIT 1) t
  LEFT JOIN LATERAL (SELECT x.created_at + make_interval(secs => q.delay_seconds) AS ripe FROM log_segments x
                      WHERE q.delay_seconds > 0 AND x.partition_id = p.id
                        AND x.end_offset >= GREATEST(c.next_offset, p.start_offset)
                      ORDER BY x.end_offset LIMIT 1) g ON true
 CROSS JOIN LATERAL (SELECT GREATEST(c.held, g.ripe) AS due) h
 WHERE q.deleted_at IS NULL AND GREATEST(c.next_offset, p.start_offset) <= t.end_offset
   AND (c.next_offset IS NOT NULL OR b.created_at IS NULL OR t.created_at > b.created_at)
 LIMIT $3
