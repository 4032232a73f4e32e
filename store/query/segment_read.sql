-- The marks of partitions, and of each the segments from an offset on: one
-- snapshot, so that no segment lies at or above the next offset returned.
--
-- $1 partitions, $2 first offsets wanted, $3 bytes wanted of each, $4 bytes
-- wanted in all. A span's first segment comes whatever its size, unless the
-- spans before it used up $4; the very first one comes in any case. An offset
-- below the log start gets marks only, a partition that does not exist nothing.
--
-- All spans are walked side by side, and no further when those that are not done
-- have $4 bytes together, or some 50,000 rows: what a thousand spans could give each
-- for itself is a thousand times what is wanted. Then those first in order may
-- get less than they could.
--
-- Rows: i names the span, from 1; first its marks, with end_offset NULL, then its
-- segments in order. The walk goes from key to key, so it stops where enough is
-- found; data travels as a pointer until a row is chosen.
-- Indexes: log_partitions_pkey, log_txns_pkey, log_segments_pkey (one look per segment).
WITH RECURSIVE marked AS MATERIALIZED (
    SELECT s.i, s.partition_id, s.from_offset, s.bytes_max, p.start_offset, COALESCE(t.next_offset, 0) AS next_offset
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY s(partition_id, from_offset, bytes_max, i)
      CROSS JOIN LATERAL (SELECT x.start_offset FROM log_partitions x WHERE x.id = s.partition_id LIMIT 1) p
      LEFT JOIN LATERAL (SELECT x.end_offset + 1 AS next_offset FROM log_txns x WHERE x.partition_id = s.partition_id
                          ORDER BY x.end_offset DESC LIMIT 1) t ON true
), walk AS (
    SELECT m.i, m.bytes_max, g.size::bigint AS bytes, 1 AS level, g.*
      FROM marked m
      CROSS JOIN LATERAL (SELECT x.* FROM log_segments x
                           WHERE x.partition_id = m.partition_id AND x.end_offset >= m.from_offset
                           ORDER BY x.end_offset LIMIT 1) g
     WHERE m.from_offset >= m.start_offset
    UNION ALL
    SELECT w.i, w.bytes_max, w.bytes + g.size, w.level + 1, g.*
      FROM (SELECT v.*, sum(v.bytes::float8) OVER () AS bytes_now, count(*) OVER () * v.level AS rows_now FROM walk v) w
      CROSS JOIN LATERAL (SELECT x.* FROM log_segments x
                           WHERE x.partition_id = w.partition_id AND x.end_offset > w.end_offset
                           ORDER BY x.end_offset LIMIT 1) g
     WHERE w.bytes + g.size <= LEAST(w.bytes_max, $4::bigint)
       AND w.bytes_now < $4 AND w.rows_now < 50000
), chosen AS (
    SELECT w.*, sum(w.size) OVER (ORDER BY w.i, w.end_offset) AS bytes_all,
           row_number() OVER (ORDER BY w.i, w.end_offset) AS n
      FROM walk w
)
SELECT m.i, m.start_offset, m.next_offset, m.partition_id, NULL::bigint AS end_offset, NULL::bigint, NULL::timestamptz,
       NULL::bigint, NULL::integer, NULL::integer, NULL::integer, NULL::bytea, NULL::bytea
  FROM marked m
UNION ALL
SELECT c.i, NULL, NULL, c.partition_id, c.end_offset, c.base_offset, c.created_at,
       c.max_timestamp, c.leader_epoch, c.records, c.size, c.header, c.data
  FROM chosen c WHERE c.n = 1 OR c.bytes_all <= $4
 ORDER BY 1, 5 NULLS FIRST
