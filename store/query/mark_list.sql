-- The marks of the partitions $1, and the leader epoch of each one's newest
-- segment (−1 for none). i is the place in $1, from 1.
-- Indexes: log_partitions_pkey, log_txns_pkey, log_segments_pkey (one look each per partition).
SELECT s.i, p.start_offset, COALESCE(t.next_offset, 0), COALESCE(g.leader_epoch, -1)
  FROM unnest($1::bigint[]) WITH ORDINALITY s(partition_id, i)
  CROSS JOIN LATERAL (SELECT x.start_offset FROM log_partitions x WHERE x.id = s.partition_id LIMIT 1) p
  LEFT JOIN LATERAL (SELECT x.end_offset + 1 AS next_offset FROM log_txns x WHERE x.partition_id = s.partition_id
                      ORDER BY x.end_offset DESC LIMIT 1) t ON true
  LEFT JOIN LATERAL (SELECT x.leader_epoch FROM log_segments x WHERE x.partition_id = s.partition_id
                      ORDER BY x.end_offset DESC LIMIT 1) g ON true
