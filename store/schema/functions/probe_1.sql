-- probe_1 finds which ids of a segment are already stored in its partition.
--
-- Promise: one row per id found, with the lowest live occurrence: i is the
-- offset within the segment (from 1), off the original's offset, hi and lo its
-- message id. Looked through are the sidecar rows above p_from that were
-- created at or after p_since, those that touch a named span, and the segment
-- itself: an id repeated inside it is reported at its later places, with the
-- offset its first place would get (p_next + place − 1) and no message id.
--
-- Locks: none; the caller holds the partition's row. Index: log_txns_pkey.
-- It is a function of its own because it pins its join method: the planner
-- guesses ten elements per array and would compare every pair.
CREATE FUNCTION probe_1(
    p_partition    bigint,
    p_from         bigint,
    p_next         bigint,
    p_since        timestamptz,
    p_hashes       uuid[],
    p_segment      integer,
    p_uid_segment  integer[],
    p_uid_index    integer[],
    p_uid_hi       bigint[],
    p_uid_lo       bigint[],
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
    ), uids AS MATERIALIZED (
        SELECT u.i, u.hi, u.lo
          FROM unnest(p_uid_segment, p_uid_index, p_uid_hi, p_uid_lo) u(seg, i, hi, lo)
         WHERE u.seg = p_segment AND p_hashes[u.i] <> c_nil
    ), rows AS MATERIALIZED (
        SELECT t.base_offset, t.end_offset, t.id_hi, t.id_lo, t.hashes
          FROM log_txns t
         WHERE t.partition_id = p_partition AND t.end_offset > p_from AND t.created_at >= p_since
        UNION ALL
        SELECT t.base_offset, t.end_offset, t.id_hi, t.id_lo, t.hashes
          FROM unnest(p_span_segment, p_span_from, p_span_to) s(seg, a, b)
          JOIN LATERAL (
                SELECT * FROM log_txns x
                 WHERE x.partition_id = p_partition AND x.end_offset >= s.a AND x.end_offset <= p_from
                   AND x.base_offset <= s.b AND x.created_at >= p_since
               ) t ON true
         WHERE s.seg = p_segment
    ), found AS (
        SELECT mine.i, t.base_offset + th.k - 1 AS off, t.id_hi AS hi, t.id_lo + th.k - 1 AS lo
          FROM rows t CROSS JOIN LATERAL unnest(t.hashes) WITH ORDINALITY th(h, k)
          JOIN mine ON mine.h = th.h
        UNION ALL
        -- A minted id given back as a client's: its row's range says it, if
        -- that place was indeed minted.
        SELECT uids.i, t.base_offset + (uids.lo - t.id_lo), uids.hi, uids.lo
          FROM rows t JOIN uids ON uids.hi = t.id_hi
         WHERE uids.lo >= t.id_lo AND uids.lo <= t.id_lo + (t.end_offset - t.base_offset)
           AND (cardinality(t.hashes) = 0 OR t.hashes[(uids.lo - t.id_lo + 1)::integer] = c_nil)
        UNION ALL
        SELECT m.i, p_next + m.first - 1, 0::bigint, 0::bigint
          FROM (SELECT mine.i, min(mine.i) OVER (PARTITION BY mine.h) AS first FROM mine) m
         WHERE m.i > m.first
    )
    SELECT DISTINCT ON (f.i) f.i, f.off, f.hi, f.lo FROM found f ORDER BY f.i, f.off;
END
$$;
