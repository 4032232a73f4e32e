-- The largest leader epoch at or below $2 in partition $1, and where it ended:
-- the base of the first segment of a later epoch, or the next offset. Where all
-- that an epoch so old wrote is gone, it is $2 itself that ended there, as in Kafka:
-- retention and compaction are no reason to think that a log was cut. No row: no segments.
--
-- Epochs never fall from segment to segment; the search is that of
-- segment_at_time.sql for the first segment of an epoch above $2.
-- Indexes: log_txns_pkey, log_segments_pkey (about 20 looks per million offsets).
WITH RECURSIVE ends AS MATERIALIZED (
    SELECT a.end_offset AS first, z.end_offset AS last
      FROM (SELECT x.end_offset FROM log_segments x WHERE x.partition_id = $1 ORDER BY x.end_offset LIMIT 1) a,
           (SELECT x.end_offset FROM log_segments x WHERE x.partition_id = $1 ORDER BY x.end_offset DESC LIMIT 1) z
), search AS (
    SELECT e.first AS lo, e.last AS hi, NULL::bigint AS best FROM ends e
    UNION ALL
    SELECT CASE WHEN g.leader_epoch <= $2::integer THEN g.end_offset + 1 ELSE s.lo END,
           CASE WHEN g.leader_epoch <= $2::integer THEN s.hi ELSE (s.lo + s.hi) / 2 - 1 END,
           CASE WHEN g.leader_epoch <= $2::integer THEN s.best ELSE g.end_offset END
      FROM search s
      CROSS JOIN LATERAL (SELECT x.end_offset, x.leader_epoch FROM log_segments x
                           WHERE x.partition_id = $1 AND x.end_offset >= (s.lo + s.hi) / 2
                           ORDER BY x.end_offset LIMIT 1) g
     WHERE s.lo <= s.hi
), found AS (
    SELECT s.best FROM search s WHERE s.lo > s.hi
)
SELECT COALESCE(b.leader_epoch, $2::integer),
       COALESCE((SELECT x.base_offset FROM log_segments x WHERE x.partition_id = $1 AND x.end_offset = f.best),
                (SELECT x.end_offset + 1 FROM log_txns x WHERE x.partition_id = $1 ORDER BY x.end_offset DESC LIMIT 1))
  FROM found f
  LEFT JOIN LATERAL (SELECT x.leader_epoch FROM log_segments x
                      WHERE x.partition_id = $1 AND x.end_offset < COALESCE(f.best, 9223372036854775807)
                      ORDER BY x.end_offset DESC LIMIT 1) b ON true
