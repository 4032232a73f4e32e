-- deleted_sweep_1 deletes rows of queues that have a tombstone, at most p_rows of them.
--
-- Promise: true when nothing is left to sweep that nobody else is sweeping. A
-- partition's row goes after all that names it, the queue's row after all its
-- partitions, so a step that is cut off is taken up by the next.
--
-- Locks: the queue's row (place 3; one that is locked is left to whoever holds
-- it), then the rows deleted. Indexes: queues_deleted and the primary keys.
CREATE FUNCTION deleted_sweep_1(p_rows integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_left  integer := p_rows;
    v_queue bigint;
    v_part  bigint;
    v_n     integer;
BEGIN
    LOOP
        SELECT q.id INTO v_queue FROM queues q WHERE q.deleted_at IS NOT NULL
         ORDER BY q.id LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN true;
        END IF;
        LOOP
            SELECT p.id INTO v_part FROM log_partitions p WHERE p.queue_id = v_queue ORDER BY p.number LIMIT 1;
            EXIT WHEN NOT FOUND;
            DELETE FROM log_segments WHERE partition_id = v_part AND end_offset IN
                (SELECT x.end_offset FROM log_segments x WHERE x.partition_id = v_part ORDER BY x.end_offset LIMIT v_left);
            GET DIAGNOSTICS v_n = ROW_COUNT;
            v_left := v_left - v_n;
            IF v_left <= 0 THEN RETURN false; END IF;
            DELETE FROM log_txns WHERE partition_id = v_part AND end_offset IN
                (SELECT x.end_offset FROM log_txns x WHERE x.partition_id = v_part ORDER BY x.end_offset LIMIT v_left);
            GET DIAGNOSTICS v_n = ROW_COUNT;
            v_left := v_left - v_n;
            IF v_left <= 0 THEN RETURN false; END IF;
            DELETE FROM log_run_blocks WHERE partition_id = v_part AND (last_offset, first_hash) IN
                (SELECT x.last_offset, x.first_hash FROM log_run_blocks x WHERE x.partition_id = v_part
                  ORDER BY x.last_offset, x.first_hash LIMIT v_left);
            GET DIAGNOSTICS v_n = ROW_COUNT;
            v_left := v_left - v_n;
            IF v_left <= 0 THEN RETURN false; END IF;
            DELETE FROM log_runs WHERE partition_id = v_part;
            DELETE FROM producers WHERE partition_id = v_part AND (producer_id, end_offset) IN
                (SELECT x.producer_id, x.end_offset FROM producers x WHERE x.partition_id = v_part
                  ORDER BY x.producer_id, x.end_offset LIMIT v_left);
            GET DIAGNOSTICS v_n = ROW_COUNT;
            v_left := v_left - v_n;
            IF v_left <= 0 THEN RETURN false; END IF;
            DELETE FROM cursors WHERE partition_id = v_part AND group_name IN
                (SELECT x.group_name FROM cursors x WHERE x.partition_id = v_part ORDER BY x.group_name LIMIT v_left);
            GET DIAGNOSTICS v_n = ROW_COUNT;
            v_left := v_left - v_n;
            IF v_left <= 0 THEN RETURN false; END IF;
            DELETE FROM log_partitions WHERE id = v_part;
            v_left := v_left - 1;
            IF v_left <= 0 THEN RETURN false; END IF;
        END LOOP;
        DELETE FROM subscriptions WHERE queue_id = v_queue;
        DELETE FROM queues WHERE id = v_queue;
        v_left := v_left - 1;
        IF v_left <= 0 THEN RETURN false; END IF;
    END LOOP;
END
$$;
