-- Partitions of compacted queues after ($1, $2), a queue's id and a partition's
-- number, at most $3 of them, and what there is to compact:
-- clean_to: below it no message is superseded by another below it.
-- upto: where what may be compacted ends. The last segment is left alone, as
--   Kafka leaves the one it writes to, unless it is older than the largest lag; and so is
--   what is younger than the smallest lag.
-- clean_bytes, dirty_bytes: what lies below clean_to, and from there to upto.
-- clean_total: the running size of what was written below clean_to.
-- overdue: something there is older than the largest lag. tombstones: one is due.
-- OFFSET 0 keeps an expression from being evaluated wherever it is named.
-- Indexes: queues_compacted, log_partitions_queue_id_number_key, log_segments_pkey, log_compactions_pkey.
SELECT p.queue_id, p.number, p.id, now.at, p.dirty_ratio_min, p.tombstone_retention_ms, p.start_offset,
       GREATEST(c.clean_to, p.start_offset), COALESCE(u.upto, p.start_offset),
       CASE WHEN c.clean_to > p.start_offset THEN c.clean_bytes ELSE 0 END,
       GREATEST(c.clean_total, f.total_size - f.size, 0),
       GREATEST(0, COALESCE(d.total_size, 0) - GREATEST(c.clean_total, f.total_size - f.size, 0)),
       COALESCE(o.age_ms > p.compaction_lag_max_ms, false),
       COALESCE(c.tombstones_due <= now.at, false)
  FROM (SELECT clock_timestamp() AS at OFFSET 0) now,
       (SELECT q.id AS queue_id, q.dirty_ratio_min, q.tombstone_retention_ms, q.compaction_lag_min_ms,
               q.compaction_lag_max_ms, l.id, l.number, l.start_offset
          FROM (SELECT x.* FROM queues x WHERE x.cleanup_compact AND x.id >= $1) q
         CROSS JOIN LATERAL (SELECT x.id, x.number, x.start_offset FROM log_partitions x
                              WHERE x.queue_id = q.id AND (q.id > $1 OR x.number > $2)
                              ORDER BY x.number LIMIT $3) l
         WHERE q.deleted_at IS NULL
         ORDER BY q.id, l.number LIMIT $3) p
  LEFT JOIN LATERAL (SELECT x.end_offset, x.base_offset,
                            extract(epoch FROM now.at - x.created_at) * 1000 AS age_ms
                       FROM log_segments x WHERE x.partition_id = p.id ORDER BY x.end_offset DESC LIMIT 1) n ON true
  LEFT JOIN LATERAL (SELECT x.size, x.total_size FROM log_segments x
                      WHERE x.partition_id = p.id AND x.end_offset >= p.start_offset ORDER BY x.end_offset LIMIT 1) f ON true
  LEFT JOIN LATERAL (SELECT x.* FROM log_compactions x WHERE x.partition_id = p.id LIMIT 1) c ON true
 CROSS JOIN LATERAL (
        SELECT LEAST(CASE WHEN n.age_ms > p.compaction_lag_max_ms THEN n.end_offset + 1 ELSE n.base_offset END,
                     CASE WHEN p.compaction_lag_min_ms > 0 THEN first_after_1(p.id,
                          now.at - LEAST(p.compaction_lag_min_ms, 3155760000000) * interval '1 millisecond') END) AS upto
        OFFSET 0
       ) u
  LEFT JOIN LATERAL (SELECT x.total_size FROM log_segments x
                      WHERE x.partition_id = p.id AND x.end_offset < u.upto ORDER BY x.end_offset DESC LIMIT 1) d ON true
  LEFT JOIN LATERAL (SELECT extract(epoch FROM now.at - x.created_at) * 1000 AS age_ms FROM log_segments x
                      WHERE x.partition_id = p.id AND x.end_offset >= GREATEST(c.clean_to, p.start_offset)
                        AND x.end_offset < u.upto
                      ORDER BY x.end_offset LIMIT 1) o ON true
 ORDER BY p.queue_id, p.number
