-- The first segment of partition $1, at or above its log start, whose running
-- maximum timestamp is at least $2; with $2 NULL, at least that of the last
-- segment. No row: there is none.
--
-- max_timestamp never falls from segment to segment, so the answer is found by
-- halving the range of offsets: each step looks at the first segment that ends
-- at or above the middle. lo … hi holds the ends not judged yet, best the lowest
-- end known to qualify.
-- Indexes: log_partitions_pkey, log_segments_pkey (about 20 looks per million offsets).
WITH RECURSIVE last AS MATERIALIZED (
    SELECT p.start_offset, g.end_offset, COALESCE($2::bigint, g.max_timestamp) AS wanted
      FROM log_partitions p
      CROSS JOIN LATERAL (SELECT x.end_offset, x.max_timestamp FROM log_segments x WHERE x.partition_id = p.id
                           ORDER BY x.end_offset DESC LIMIT 1) g
     WHERE p.id = $1 AND g.end_offset >= p.start_offset AND g.max_timestamp >= COALESCE($2::bigint, g.max_timestamp)
), search AS (
    SELECT l.start_offset AS lo, l.end_offset - 1 AS hi, l.end_offset AS best, l.wanted FROM last l
    UNION ALL
    SELECT CASE WHEN g.max_timestamp < s.wanted THEN g.end_offset + 1 ELSE s.lo END,
           CASE WHEN g.max_timestamp < s.wanted THEN s.hi ELSE (s.lo + s.hi) / 2 - 1 END,
           CASE WHEN g.max_timestamp < s.wanted THEN s.best ELSE g.end_offset END, s.wanted
      FROM search s
      CROSS JOIN LATERAL (SELECT x.end_offset, x.max_timestamp FROM log_segments x
                           WHERE x.partition_id = $1 AND x.end_offset >= (s.lo + s.hi) / 2
                           ORDER BY x.end_offset LIMIT 1) g
     WHERE s.lo <= s.hi
)
SELECT g.partition_id, g.end_offset, g.base_offset, g.created_at, g.max_timestamp, g.leader_epoch,
       g.records, g.size, g.header, g.data
  FROM search s
  CROSS JOIN LATERAL (SELECT x.* FROM log_segments x WHERE x.partition_id = $1 AND x.end_offset = s.best LIMIT 1) g
 WHERE s.lo > s.hi
