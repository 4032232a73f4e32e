-- dead_letters_add_1 files messages that a group gives up on.
--
-- Promise: one dead letter per offset, ascending in p_dead, with the failures
-- counted and the reason that was named with it; the segments they lie in are kept
-- beside. Called by ack_apply_1 under the cursor's lock, with its arguments.
--
-- Locks: rows of dead_segments in ascending offset, so that none is dropped while it
-- gets another letter. Indexes: log_segments_pkey, dead_segments_pkey, retries_pkey.
CREATE FUNCTION dead_letters_add_1(
    p_queue     bigint,
    p_partition bigint,
    p_group     text,
    p_dead      bigint[],
    p_offsets   bigint[],
    p_outcomes  smallint[],
    p_reasons   text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    v_o    bigint;
    v_end  bigint;
    v_base bigint;
    v_kept bigint := -1;
BEGIN
    FOREACH v_o IN ARRAY p_dead LOOP
        SELECT x.end_offset, x.base_offset INTO v_end, v_base FROM log_segments x
         WHERE x.partition_id = p_partition AND x.end_offset >= v_o ORDER BY x.end_offset LIMIT 1;
        IF NOT FOUND OR v_base > v_o THEN
            v_end := NULL;
        ELSIF v_end > v_kept THEN
            INSERT INTO dead_segments AS d (partition_id, end_offset, base_offset, created_at, max_timestamp,
                                            leader_epoch, records, size, header, data)
            SELECT x.partition_id, x.end_offset, x.base_offset, x.created_at, x.max_timestamp,
                   x.leader_epoch, x.records, x.size, x.header, x.data
              FROM log_segments x WHERE x.partition_id = p_partition AND x.end_offset = v_end
            ON CONFLICT (partition_id, end_offset) DO UPDATE SET records = d.records;
            v_kept := v_end;
        END IF;
        INSERT INTO dead_letters (queue_id, partition_id, group_name, record_offset, segment_end, failures, reason, died_at)
        SELECT p_queue, p_partition, p_group, v_o, v_end,
               COALESCE((SELECT r.failures FROM retries r WHERE r.partition_id = p_partition AND r.group_name = p_group
                            AND r.record_offset = v_o), 0)
                 + (SELECT count(*) FROM (SELECT 1 FROM unnest(p_offsets, p_outcomes) u(o, what)
                                           WHERE u.o = v_o AND u.what = 1 LIMIT 1) f),
               COALESCE((SELECT u.why FROM unnest(p_offsets, p_reasons) u(o, why) WHERE u.o = v_o AND u.why IS NOT NULL LIMIT 1), ''),
               clock_timestamp();
    END LOOP;
END
$$;
