-- rows_probe_1 looks for hashes of a segment in the sidecar's rows.
--
-- Promise: as probe_1, for the rows that end above p_above, those that end at or
-- below p_from and touch a named span (each created at or after p_since), and
-- the segment itself.
--
-- Locks: none; the caller holds the partition's row. Index: log_txns_pkey.
-- It is a function of its own because it pins its join method: the planner
-- guesses ten elements per array and would compare every pair.
CREATE FUNCTION rows_probe_1(
    p_partition    bigint,
    p_from         bigint,
    p_above        bigint,
    p_next         bigint,
    p_now          timestamptz,
    p_since        timestamptz,
    p_hashes       uuid[],
    p_segment      integer,
    p_span_segment integer[],
    p_span_from    bigint[],
    p_span_to      bigint[]
) RETURNS TABLE (i integer, off bigint, hi bigint, lo bigint)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    c_nil CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    RETURN QUERY
    WITH mine AS MATERIALIZED (
        SELECT m.h, m.i::integer AS i FROM unnest(p_hashes) WITH ORDINALITY m(h, i) WHERE m.h <> c_nil
    ), rows AS (
        SELECT t.base_offset, t.id_hi, t.id_lo, t.hashes, t.ttls, t.created_at
          FROM log_txns t
         WHERE t.partition_id = p_partition AND t.end_offset > p_above AND t.created_at >= p_since
        UNION ALL
        -- Of a row only what the span touches: it may be far longer.
        SELECT t.base_offset + t.skip, t.id_hi, t.id_lo + t.skip,
               t.hashes[t.skip + 1 : s.b - t.base_offset + 1], t.ttls[t.skip + 1 : s.b - t.base_offset + 1], t.created_at
          FROM unnest(p_span_segment, p_span_from, p_span_to) s(seg, a, b)
         -- Rows follow one another, so a span ends in the first row at or above its end.
         -- Without this bound on the key the scan of each span goes on to p_from.
         CROSS JOIN LATERAL (
                SELECT x.*, GREATEST(s.a - x.base_offset, 0) AS skip FROM log_txns x
                 WHERE x.partition_id = p_partition AND x.end_offset >= s.a AND x.end_offset <= p_from
                   AND x.end_offset <= COALESCE((
                           SELECT y.end_offset FROM log_txns y
                            WHERE y.partition_id = p_partition AND y.end_offset >= s.b
                            ORDER BY y.end_offset LIMIT 1), p_from)
                   AND x.base_offset <= s.b AND x.created_at >= p_since
               ) t
         WHERE s.seg = p_segment
    )
    SELECT mine.i, t.base_offset + th.k - 1, t.id_hi, t.id_lo + th.k - 1
      FROM rows t CROSS JOIN LATERAL unnest(t.hashes) WITH ORDINALITY th(h, k)
      JOIN mine ON mine.h = th.h
     WHERE t.ttls IS NULL OR t.ttls[th.k] = 0 OR t.created_at > p_now - t.ttls[th.k] * interval '1 millisecond'
    UNION ALL
    SELECT m.i, p_next + m.first - 1, 0::bigint, 0::bigint
      FROM (SELECT mine.i, min(mine.i) OVER (PARTITION BY mine.h) AS first FROM mine) m
     WHERE m.i > m.first;
END
$$;
