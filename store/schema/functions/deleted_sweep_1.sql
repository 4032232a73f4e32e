-- deleted_sweep_1 deletes rows of the oldest queue that has a tombstone, at most p_rows
-- of them, and no more after p_bytes of messages or of ids: each byte lies in a chunk
-- of TOAST that is deleted for itself.
--
-- Promise: true when there is no such queue that nobody else is sweeping. A
-- partition's row goes after all that names it, the queue's row after all its
-- partitions, so a step that is cut off is taken up by the next.
--
-- Locks: the queue's row (place 3; one that is locked is left to whoever holds
-- it), its partitions in ascending id (place 4; their numbers ascend with
-- their ids), then what is deleted; with the queue's row that of cluster (a leaf).
-- Indexes: queues_deleted and the primary keys. A step finds the key it may go up
-- to and deletes that range: with IN the planner would join against the whole partition.
CREATE FUNCTION deleted_sweep_1(p_rows integer, p_bytes bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    c_all   CONSTANT bigint := 9223372036854775807;
    v_left  integer := p_rows;
    v_bytes bigint := p_bytes;
    v_size  bigint;
    v_queue bigint;
    v_part  bigint;
    v_to    bigint;
    v_block integer;
    v_group text;
    v_n     integer;
BEGIN
    SELECT q.id INTO v_queue FROM queues q WHERE q.deleted_at IS NOT NULL
     ORDER BY q.deleted_at LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    LOOP
        SELECT p.id INTO v_part FROM log_partitions p WHERE p.queue_id = v_queue ORDER BY p.number LIMIT 1 FOR UPDATE;
        EXIT WHEN NOT FOUND;

        SELECT max(x.end_offset), sum(x.size) INTO v_to, v_size
          FROM (SELECT y.*, sum(y.size) OVER (ORDER BY y.end_offset) - y.size AS before
                  FROM (SELECT end_offset, size FROM log_segments WHERE partition_id = v_part
                         ORDER BY end_offset LIMIT v_left) y) x
         WHERE x.before < v_bytes;
        DELETE FROM log_segments WHERE partition_id = v_part AND end_offset <= v_to;
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_left := v_left - v_n;
        v_bytes := v_bytes - COALESCE(v_size, 0);
        IF v_left <= 0 OR v_bytes <= 0 THEN RETURN false; END IF;

        SELECT max(x.end_offset), sum(x.size) INTO v_to, v_size
          FROM (SELECT y.*, sum(y.size) OVER (ORDER BY y.end_offset) - y.size AS before
                  FROM (SELECT end_offset, pg_column_size(hashes) AS size FROM log_txns WHERE partition_id = v_part
                         ORDER BY end_offset LIMIT v_left) y) x
         WHERE x.before < v_bytes;
        DELETE FROM log_txns WHERE partition_id = v_part AND end_offset <= v_to;
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_left := v_left - v_n;
        v_bytes := v_bytes - COALESCE(v_size, 0);
        IF v_left <= 0 OR v_bytes <= 0 THEN RETURN false; END IF;

        SELECT x.last_offset, x.block INTO v_to, v_block FROM log_run_blocks x WHERE x.partition_id = v_part
         ORDER BY x.last_offset, x.block OFFSET v_left - 1 LIMIT 1;
        DELETE FROM log_run_blocks WHERE partition_id = v_part AND (last_offset, block) <=
            (COALESCE(v_to, c_all), COALESCE(v_block, 2147483647));
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

        SELECT max(x.end_offset), sum(x.size) INTO v_to, v_size
          FROM (SELECT y.*, sum(y.size) OVER (ORDER BY y.end_offset) - y.size AS before
                  FROM (SELECT end_offset, size FROM dead_segments WHERE partition_id = v_part
                         ORDER BY end_offset LIMIT v_left) y) x
         WHERE x.before < v_bytes;
        DELETE FROM dead_segments WHERE partition_id = v_part AND end_offset <= v_to;
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_left := v_left - v_n;
        v_bytes := v_bytes - COALESCE(v_size, 0);
        IF v_left <= 0 OR v_bytes <= 0 THEN RETURN false; END IF;

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
    DELETE FROM queues WHERE id = v_queue RETURNING version INTO v_to;
    UPDATE cluster SET swept_version = v_to WHERE swept_version < v_to;
    RETURN false;
END
$$;
