-- rows_probe_1 looks for hashes of a segment in the sidecar's newest rows.
--
-- Promise: as probe_1, for the rows that end above p_above (created at or after
-- p_since) and the segment itself.
--
-- Locks: none; the caller holds the partition's row. Index: log_txns_pkey.
-- It is a function of its own because it pins its join method: the planner
-- guesses ten elements per array and would compare every pair.
CREATE FUNCTION rows_probe_1(
    p_partition bigint,
    p_above     bigint,
    p_next      bigint,
    p_now       timestamptz,
    p_since     timestamptz,
    p_hashes    uuid[]
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
    )
    SELECT mine.i, x.off, x.hi, x.lo
      FROM (SELECT th.h, t.base_offset + th.k - 1 AS off, t.id_hi AS hi, t.id_lo + th.k - 1 AS lo
              FROM log_txns t CROSS JOIN LATERAL unnest(t.hashes) WITH ORDINALITY th(h, k)
             WHERE t.partition_id = p_partition AND t.end_offset > p_above AND t.created_at >= p_since
               AND (t.ttls IS NULL OR t.ttls[th.k] = 0 OR t.created_at > p_now - t.ttls[th.k] * interval '1 millisecond')
            OFFSET 0  -- else each row is hashed, instead of mine
           ) x
      JOIN mine ON mine.h = x.h
    UNION ALL
    SELECT m.i, p_next + m.first - 1, 0::bigint, 0::bigint
      FROM (SELECT mine.i, min(mine.i) OVER (PARTITION BY mine.h) AS first FROM mine) m
     WHERE m.i > m.first;
END
$$;
