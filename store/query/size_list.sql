-- The bytes of what the partitions $1 hold from their log starts on. Running sizes
-- say it; what compaction has been over is added up. i is the place in $1, from 1.
-- Indexes: log_partitions_pkey, log_segments_pkey, log_compactions_pkey.
SELECT s.i, COALESCE(n.total_size - GREATEST(c.clean_total, f.total_size - f.size, 0) + COALESCE(k.size, 0), 0)::bigint
  FROM unnest($1::bigint[]) WITH ORDINALITY s(partition_id, i)
 CROSS JOIN LATERAL (SELECT x.start_offset FROM log_partitions x WHERE x.id = s.partition_id LIMIT 1) p
  LEFT JOIN LATERAL (SELECT x.* FROM log_compactions x WHERE x.partition_id = s.partition_id LIMIT 1) c ON true
  LEFT JOIN LATERAL (SELECT x.total_size FROM log_segments x WHERE x.partition_id = s.partition_id
                      ORDER BY x.end_offset DESC LIMIT 1) n ON true
  LEFT JOIN LATERAL (SELECT x.size, x.total_size FROM log_segments x
                      WHERE x.partition_id = s.partition_id AND x.end_offset >= p.start_offset
                      ORDER BY x.end_offset LIMIT 1) f ON true
  LEFT JOIN LATERAL (SELECT sum(x.size) AS size FROM log_segments x
                      WHERE x.partition_id = s.partition_id AND x.end_offset >= p.start_offset
                        AND x.end_offset < c.clean_to) k ON true
