-- ids_resolve_1 finds where ids lie in a partition.
--
-- Promise: of each hash in p_hashes, and of each minted id given as halves, the
-- lowest offset at or above p_from whose sidecar row still exists: i counts the
-- hashes from 1, then the minted ids from 1 on negative numbers. Ids that are
-- nowhere have no row.
--
-- Locks: none. Index: log_txns_pkey. A function because it pins its join method,
-- as probe_1 does.
CREATE FUNCTION ids_resolve_1(
    p_partition bigint,
    p_from      bigint,
    p_hashes    uuid[],
    p_uid_hi    bigint[],
    p_uid_lo    bigint[]
) RETURNS TABLE (i integer, off bigint)
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
        SELECT u.hi, u.lo, -u.i::integer AS i FROM unnest(p_uid_hi, p_uid_lo) WITH ORDINALITY u(hi, lo, i)
    ), rows AS MATERIALIZED (
        SELECT t.base_offset, t.end_offset, t.id_hi, t.id_lo, t.hashes
          FROM log_txns t
         WHERE t.partition_id = p_partition AND t.end_offset >= p_from
    ), found AS (
        SELECT mine.i, t.base_offset + th.k - 1 AS off
          FROM rows t CROSS JOIN LATERAL unnest(t.hashes) WITH ORDINALITY th(h, k)
          JOIN mine ON mine.h = th.h
        UNION ALL
        -- A minted id: its row's range says it, if that place was indeed minted.
        SELECT uids.i, t.base_offset + (uids.lo - t.id_lo)
          FROM rows t JOIN uids ON uids.hi = t.id_hi
         WHERE uids.lo >= t.id_lo AND uids.lo <= t.id_lo + (t.end_offset - t.base_offset)
           AND (cardinality(t.hashes) = 0 OR t.hashes[(uids.lo - t.id_lo + 1)::integer] = c_nil)
    )
    SELECT f.i, min(f.off) FROM found f WHERE f.off >= p_from GROUP BY f.i;
END
$$;
