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
    SELECT mine.i, x.base_offset + q.k - 1, x.id_hi, x.id_lo + q.k - 1
      FROM (SELECT unnest(t.hashes) AS h, t.hashes, t.ttls, t.base_offset, t.id_hi, t.id_lo, t.created_at
              FROM log_txns t
             WHERE t.partition_id = p_partition AND t.end_offset > p_above AND t.created_at >= p_since
            OFFSET 0  -- else each row is hashed, instead of mine
           ) x
      JOIN mine ON mine.h = x.h
     -- Its places only where there is one: counting them all along takes as long as the search.
     CROSS JOIN LATERAL unnest(array_positions(x.hashes, x.h)) q(k)
     WHERE x.ttls IS NULL OR x.ttls[q.k] = 0 OR x.created_at > p_now - x.ttls[q.k] * interval '1 millisecond'
    UNION ALL
    SELECT m.i, p_next + m.first - 1, 0::bigint, 0::bigint
      FROM (SELECT mine.i, min(mine.i) OVER (PARTITION BY mine.h) AS first FROM mine) m
     WHERE m.i > m.first;
END
$$;
