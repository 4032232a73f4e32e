-- The segments of partition $1 from offset $2 on, in order, until they have $3 bytes
-- or are $4 in number: at least one. Those below the log start are left out.
-- Index: log_partitions_pkey, log_segments_pkey (one look per segment).
WITH RECURSIVE walk AS (
    SELECT g.size::bigint AS bytes, 1 AS n, g.*
      FROM log_partitions p
     CROSS JOIN LATERAL (SELECT x.* FROM log_segments x
                          WHERE x.partition_id = p.id AND x.end_offset >= GREATEST($2::bigint, p.start_offset)
                          ORDER BY x.end_offset LIMIT 1) g
     WHERE p.id = $1
    UNION ALL
    SELECT w.bytes + g.size, w.n + 1, g.*
      FROM walk w
     CROSS JOIN LATERAL (SELECT x.* FROM log_segments x
                          WHERE x.partition_id = $1 AND x.end_offset > w.end_offset
                          ORDER BY x.end_offset LIMIT 1) g
     WHERE w.bytes < $3 AND w.n < $4
)
SELECT w.partition_id, w.end_offset, w.base_offset, w.created_at, w.max_timestamp, w.leader_epoch,
       w.records, w.size, w.header, w.data, w.total_size
  FROM walk w ORDER BY w.end_offset
