-- runs_probe_1 finds ids of a segment in the sorted runs of its partition.
--
-- Promise: covered is the last offset the runs cover (−1: there are none), and
-- the arrays name hits: idx is the place within the segment (from 1), off the
-- offset of a live occurrence above p_from, hi and lo its message id. A run only
-- says where to look, by 32 bits of a hash: each hit is confirmed in the sidecar,
-- by hash and creation time. All of it is one statement, so that runs merged meanwhile are
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
        SELECT r.first_offset, r.last_offset, r.blocks FROM log_runs r
         WHERE r.partition_id = p_partition AND r.last_offset > p_from
    ), asked AS MATERIALIZED (
        SELECT u.h, u.i::integer AS i, ('x' || left(u.h::text, 8))::bit(32)::integer::bigint AS key
          FROM unnest(p_hashes) WITH ORDINALITY u(h, i)
         WHERE u.h <> c_nil
    ), places AS (
        SELECT m.h, m.i, r.first_offset + (u.e & 4294967295) AS off
          FROM asked m
         CROSS JOIN runs r
         CROSS JOIN LATERAL (
                SELECT b.entries FROM log_run_blocks b
                 WHERE b.partition_id = p_partition AND b.last_offset = r.last_offset
                   AND b.block = (((m.key + 2147483648) * r.blocks) >> 32)::integer
                 LIMIT 1  -- there is no other, and so this stays inside
               ) b
         CROSS JOIN LATERAL unnest(b.entries) u(e)
            -- The last entry that is not of a greater key, found by halving.
         WHERE b.entries[width_bucket((m.key << 32) + 4294967295, b.entries)] >> 32 = m.key AND u.e >> 32 = m.key
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
