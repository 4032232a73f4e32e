-- runs_probe_1 finds ids of a segment in the sorted runs of its partition.
--
-- Promise: covered is the last offset the runs cover (−1: there are none), and
-- the arrays name hits: idx is the place within the segment (from 1), off the
-- offset of a live occurrence above p_from, hi and lo its message id. A run only
-- says where to look: each hit is confirmed in the sidecar, by hash and
-- creation time. All of it is one statement, so that runs merged meanwhile are
-- seen either all as they were or all as they are.
--
-- Locks: none; the caller holds the partition's row. Indexes: log_runs_pkey,
-- log_run_blocks_pkey, log_txns_pkey.
CREATE FUNCTION runs_probe_1(
    p_partition bigint,
    p_from      bigint,
    p_now       timestamptz,
    p_since     timestamptz,
    p_hashes    uuid[],
    OUT covered bigint,
    OUT idx     integer[],
    OUT off     bigint[],
    OUT hi      bigint[],
    OUT lo      bigint[]
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_nestloop = on
AS $$
DECLARE
    c_nil CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    WITH runs AS MATERIALIZED (
        SELECT r.first_offset, r.last_offset FROM log_runs r
         WHERE r.partition_id = p_partition AND r.last_offset > p_from
    ), places AS (
        SELECT m.h, m.i::integer AS i, r.first_offset + u.o AS off
          FROM unnest(p_hashes) WITH ORDINALITY m(h, i)
         CROSS JOIN runs r
         CROSS JOIN LATERAL (
                SELECT b.hashes, b.offsets FROM log_run_blocks b
                 WHERE b.partition_id = p_partition AND b.last_offset = r.last_offset AND b.first_hash <= m.h
                 ORDER BY b.first_hash DESC LIMIT 1
               ) b
         CROSS JOIN LATERAL unnest(b.hashes, b.offsets) u(h, o)
         WHERE m.h <> c_nil AND array_position(b.hashes, m.h) IS NOT NULL AND u.h = m.h
    ), hits AS (
        SELECT p.i, p.off, t.id_hi, t.id_lo + (p.off - t.base_offset) AS id_lo
          FROM places p
         CROSS JOIN LATERAL (
                SELECT x.* FROM log_txns x
                 WHERE x.partition_id = p_partition AND x.end_offset >= p.off
                 ORDER BY x.end_offset LIMIT 1
               ) t
         WHERE p.off > p_from AND t.base_offset <= p.off AND t.created_at >= p_since
           AND t.hashes[(p.off - t.base_offset + 1)::integer] = p.h
           AND (t.ttls IS NULL OR t.ttls[(p.off - t.base_offset + 1)::integer] = 0
                OR t.created_at > p_now - t.ttls[(p.off - t.base_offset + 1)::integer] * interval '1 millisecond')
    )
    SELECT (SELECT COALESCE(max(r.last_offset), -1) FROM runs r),
           array_agg(h.i), array_agg(h.off), array_agg(h.id_hi), array_agg(h.id_lo)
      INTO covered, idx, off, hi, lo
      FROM hits h;
END
$$;
