-- The ends and headers of partition $1's segments from offset $2 on, in order, until
-- they have $3 bytes or are $4 in number: at least one. Their data is not touched.
-- Index: log_segments_pkey (one look per segment).
WITH RECURSIVE walk AS (
    SELECT octet_length(g.header)::bigint AS bytes, 1 AS n, g.end_offset, g.header
      FROM (SELECT x.end_offset, x.header FROM log_segments x
             WHERE x.partition_id = $1 AND x.end_offset >= $2
             ORDER BY x.end_offset LIMIT 1) g
    UNION ALL
    SELECT w.bytes + octet_length(g.header), w.n + 1, g.end_offset, g.header
      FROM walk w
     CROSS JOIN LATERAL (SELECT x.end_offset, x.header FROM log_segments x
                          WHERE x.partition_id = $1 AND x.end_offset > w.end_offset
                          ORDER BY x.end_offset LIMIT 1) g
     WHERE w.bytes < $3 AND w.n < $4
)
SELECT w.end_offset, w.header FROM walk w ORDER BY w.end_offset
