-- run_write_1 writes a sorted run of a partition's sidecar, in the place of
-- others or as its newest. It works beside appends: what a run says does not change.
--
-- Promise: one step, whole or not at all. p_entries ascends, and p_ends says where each
-- block of them ends, also one without any. The run has an entry for every hash its caller
-- found from p_first to p_last, which are the ends of rows. It is written if the runs p_replaced (last offsets, all of
-- the level below) are all there, or, with none, if no run reaches beyond p_above.
-- Returns true, or nothing: somebody else was faster, and may have merged what he wrote.
--
-- Locks: an advisory one per partition, so that one step runs at a time.
-- It is plain SQL because PL/pgSQL would copy the arrays once for each block.
-- Indexes: log_runs_pkey, log_run_blocks_pkey.
CREATE FUNCTION run_write_1(
    p_partition bigint,
    p_above     bigint,
    p_replaced  bigint[],
    p_first     bigint,
    p_last      bigint,
    p_level     integer,
    p_ids       integer,
    p_entries   bigint[],
    p_ends      integer[]
) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
    -- Each statement has a snapshot of its own: the others see what was committed while this one waited.
    SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' run', p_partition));

    DELETE FROM log_runs d
     WHERE d.partition_id = p_partition AND d.last_offset = ANY (p_replaced)
       AND cardinality(p_replaced) = (SELECT count(*) FROM log_runs r
                                       WHERE r.partition_id = p_partition AND r.last_offset = ANY (p_replaced)
                                         AND r.level = p_level - 1);
    DELETE FROM log_run_blocks d
     WHERE d.partition_id = p_partition AND d.last_offset = ANY (p_replaced)
       AND NOT EXISTS (SELECT FROM log_runs r
                        WHERE r.partition_id = p_partition AND r.last_offset = ANY (p_replaced));
    INSERT INTO log_run_blocks (partition_id, last_offset, block, entries)
    SELECT p_partition, p_last, b.i - 1, p_entries[b.a : b.z]
      FROM (SELECT e.i, e.z, COALESCE(lag(e.z) OVER (ORDER BY e.i), 0) + 1 AS a
              FROM unnest(p_ends) WITH ORDINALITY e(z, i)) b
     WHERE b.a <= b.z
       AND NOT EXISTS (SELECT FROM log_runs r
                        WHERE r.partition_id = p_partition
                          AND (r.last_offset = ANY (p_replaced) OR r.first_offset <= p_first AND r.last_offset >= p_last
                               OR cardinality(p_replaced) = 0 AND r.last_offset > p_above));
    INSERT INTO log_runs (partition_id, last_offset, first_offset, level, ids, blocks)
    SELECT p_partition, p_last, p_first, p_level, p_ids, cardinality(p_ends)
     WHERE NOT EXISTS (SELECT FROM log_runs r
                        WHERE r.partition_id = p_partition
                          AND (r.last_offset = ANY (p_replaced) OR r.first_offset <= p_first AND r.last_offset >= p_last
                               OR cardinality(p_replaced) = 0 AND r.last_offset > p_above))
    RETURNING true;
$$;
