-- deleted_sweep_1 deletes rows of the oldest queue that has a tombstone, at most p_rows of them.
--
-- Promise: true when there is no such queue that nobody else is sweeping. A
-- partition's row goes after all that names it, the queue's row after all its
-- partitions, so a step that is cut off is taken up by the next.
--
-- Locks: the queue's row (place 3; one that is locked is left to whoever holds
-- it), its partitions in ascending id (place 4; their numbers ascend with
-- their ids), then what is deleted.
-- Indexes: queues_deleted and the primary keys. A step finds the key it may go up
-- to and deletes that range: with IN the planner would join against the whole partition.
CREATE FUNCTION deleted_sweep_1(p_rows integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    c_all   CONSTANT bigint := 9223372036854775807;
    v_left  integer := p_rows;
    v_queue bigint;
    v_part  bigint;
    v_to    bigint;
    v_hash  uuid;
    v_group text;
    v_n     integer;
BEGIN
    SELECT q.id INTO v_queue FROM queues q WHERE q.deleted_at IS NOT NULL
     ORDER BY q.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    LOOP
        SELECT p.id INTO v_part FROM log_partitions p WHERE p.queue_id = v_queue ORDER BY p.number LIMIT 1 FOR UPDATE;
        EXIT WHEN NOT FOUND;

        SELECT x.end_offset INTO v_to FROM log_segments x WHERE x.partition_id = v_part
         ORDER BY x.end_offset OFFSET v_left - 1 LIMIT 1;
        DELETE FROM log_segments WHERE partition_id = v_part AND end_offset <= COALESCE(v_to, c_all);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_left := v_left - v_n;
        IF v_left <= 0 THEN RETURN false; END IF;

        SELECT x.end_offset INTO v_to FROM log_txns x WHERE x.partition_id = v_part
         ORDER BY x.end_offset OFFSET v_left - 1 LIMIT 1;
        DELETE FROM log_txns WHERE partition_id = v_part AND end_offset <= COALESCE(v_to, c_all);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_left := v_left - v_n;
        IF v_left <= 0 THEN RETURN false; END IF;

        SELECT x.last_offset, x.first_hash INTO v_to, v_hash FROM log_run_blocks x WHERE x.partition_id = v_part
         ORDER BY x.last_offset, x.first_hash OFFSET v_left - 1 LIMIT 1;
        DELETE FROM log_run_blocks WHERE partition_id = v_part AND (last_offset, first_hash) <=
            (COALESCE(v_to, c_all), COALESCE(v_hash, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid));
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_left := v_left - v_n;
        IF v_left <= 0 THEN RETURN false; END IF;
        DELETE FROM log_runs WHERE partition_id = v_part;
        DELETE FROM log_compactions WHERE partition_id = v_part;

        -- A producer has one row that is alive.
        SELECT x.producer_id INTO v_to FROM producers x WHERE x.partition_id = v_part
         ORDER BY x.producer_id OFFSET v_left - 1 LIMIT 1;
        DELETE FROM producers WHERE partition_id = v_part AND producer_id <= COALESCE(v_to, c_all);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_left := v_left - v_n;
        IF v_left <= 0 THEN RETURN false; END IF;

        SELECT x.group_name INTO v_group FROM cursors x WHERE x.partition_id = v_part
         ORDER BY x.group_name OFFSET v_left - 1 LIMIT 1;
        IF FOUND THEN
            DELETE FROM cursors WHERE partition_id = v_part AND group_name <= v_group;
            RETURN false;
        END IF;
        DELETE FROM cursors WHERE partition_id = v_part;
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_left := v_left - v_n;

        SELECT x.end_offset INTO v_to FROM dead_segments x WHERE x.partition_id = v_part
         ORDER BY x.end_offset OFFSET v_left - 1 LIMIT 1;
        DELETE FROM dead_segments WHERE partition_id = v_part AND end_offset <= COALESCE(v_to, c_all);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_left := v_left - v_n;
        IF v_left <= 0 THEN RETURN false; END IF;

        -- What is failing is bounded per group, and few.
        DELETE FROM retries WHERE partition_id = v_part;

        DELETE FROM log_partitions WHERE id = v_part;
        v_left := v_left - 1;
        IF v_left <= 0 THEN RETURN false; END IF;
    END LOOP;
    SELECT x.id INTO v_to FROM dead_letters x WHERE x.queue_id = v_queue ORDER BY x.id OFFSET v_left - 1 LIMIT 1;
    DELETE FROM dead_letters WHERE queue_id = v_queue AND id <= COALESCE(v_to, c_all);
    IF v_to IS NOT NULL THEN RETURN false; END IF;
    DELETE FROM subscriptions WHERE queue_id = v_queue;
    DELETE FROM queues WHERE id = v_queue;
    RETURN false;
END
$$;
