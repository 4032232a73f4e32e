-- run_build_1 sorts what of a partition's sidecar no run covers yet into a new
-- run, or merges runs. It works beside appends: what it reads does not change.
--
-- Promise: one step. If at least p_ids hashes lie above the last run, the first
-- p_ids or so of them become a run of level 0. Else, if p_fanout runs of one
-- level below p_level_max stand side by side, they become one run of the next
-- level. Returns whether it did anything, so that the caller goes on while true.
-- Entries that the sidecar has purged are left out of merges.
--
-- Locks: an advisory one per partition, so that one step runs at a time; a
-- second caller returns false. Indexes: log_txns_pkey, log_runs_pkey, log_run_blocks_pkey.
CREATE FUNCTION run_build_1(
    p_partition bigint,
    p_ids       integer,
    p_fanout    integer,
    p_level_max integer
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
SET work_mem = '64MB'
AS $$
DECLARE
    c_nil     CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    c_entries CONSTANT integer := 90; -- 16 + 4 bytes each: four rows to a page, none toasted
    v_last  bigint;   -- end of the newest run
    v_first bigint;   -- of the run to be made
    v_to    bigint;
    v_ids   integer;
    v_start bigint;
    v_level integer;
    v_runs  bigint[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' run', p_partition)) THEN
        RETURN false;
    END IF;
    SELECT txns_start INTO v_start FROM log_partitions WHERE id = p_partition;
    SELECT COALESCE(max(last_offset), -1) INTO v_last FROM log_runs WHERE partition_id = p_partition;
    SELECT min(x.base_offset), max(x.end_offset), max(x.total) INTO v_first, v_to, v_ids
      FROM (SELECT t.base_offset, t.end_offset, t.n,
                   sum(t.n) OVER (ORDER BY t.end_offset) AS total
              FROM (SELECT l.base_offset, l.end_offset, cardinality(l.hashes) AS n FROM log_txns l
                     WHERE l.partition_id = p_partition AND l.end_offset > v_last
                     ORDER BY l.end_offset) t) x
     WHERE x.total - x.n < p_ids;
    IF v_ids >= p_ids THEN
        INSERT INTO log_run_blocks (partition_id, last_offset, first_hash, hashes, offsets)
        SELECT p_partition, v_to, (array_agg(e.h ORDER BY e.h, e.off))[1],
               array_agg(e.h ORDER BY e.h, e.off), array_agg((e.off - v_first)::integer ORDER BY e.h, e.off)
          FROM (SELECT i.h, i.off, (dense_rank() OVER (ORDER BY i.h) - 1) / c_entries AS block
                  FROM (SELECT u.h, t.base_offset + u.k - 1 AS off
                          FROM log_txns t CROSS JOIN LATERAL unnest(t.hashes) WITH ORDINALITY u(h, k)
                         WHERE t.partition_id = p_partition AND t.end_offset > v_last AND t.end_offset <= v_to
                           AND u.h <> c_nil) i) e
         GROUP BY e.block;
        INSERT INTO log_runs VALUES (p_partition, v_to, v_first, 0, v_ids);
        RETURN true;
    END IF;

    -- The lowest level with enough neighbours; they are the newest of theirs or older.
    SELECT r.level, array_agg(r.last_offset ORDER BY r.last_offset) INTO v_level, v_runs
      FROM log_runs r WHERE r.partition_id = p_partition AND r.level < p_level_max
     GROUP BY r.level HAVING count(*) >= p_fanout ORDER BY r.level LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    v_runs := v_runs[1 : p_fanout];
    v_to := v_runs[p_fanout];
    SELECT min(first_offset), sum(ids) INTO v_first, v_ids FROM log_runs
     WHERE partition_id = p_partition AND last_offset = ANY (v_runs);
    WITH taken AS (
        DELETE FROM log_run_blocks b WHERE b.partition_id = p_partition AND b.last_offset = ANY (v_runs)
        RETURNING b.last_offset, b.hashes, b.offsets
    )
    INSERT INTO log_run_blocks (partition_id, last_offset, first_hash, hashes, offsets)
    SELECT p_partition, v_to, (array_agg(e.h ORDER BY e.h, e.off))[1],
           array_agg(e.h ORDER BY e.h, e.off), array_agg((e.off - v_first)::integer ORDER BY e.h, e.off)
      FROM (SELECT u.h, r.first_offset + u.o AS off, (dense_rank() OVER (ORDER BY u.h) - 1) / c_entries AS block
              FROM taken t JOIN log_runs r ON r.partition_id = p_partition AND r.last_offset = t.last_offset
             CROSS JOIN LATERAL unnest(t.hashes, t.offsets) u(h, o)
             WHERE r.first_offset + u.o >= v_start) e
     GROUP BY e.block;
    DELETE FROM log_runs WHERE partition_id = p_partition AND last_offset = ANY (v_runs);
    INSERT INTO log_runs VALUES (p_partition, v_to, v_first, v_level + 1, v_ids);
    RETURN true;
END
$$;
