-- partition_ensure_1 finds a queue and one of its partitions by name, and makes
-- what is missing: a native queue comes into being with its first message.
--
-- Promise: one row with both, or a row whose partition is NULL when the queue
-- is fixed and has none of that name. Numbers are dense, in order of creation.
-- A queue that is made here has the table's defaults.
--
-- Locks: none where both exist. Else the queue's row (place 3), then new rows,
-- then the row of cluster (a leaf).
-- Indexes: queues_name, log_partitions_queue_id_name_key.
CREATE FUNCTION partition_ensure_1(
    p_queue     text,
    p_partition text,
    OUT q       queues,
    OUT p       log_partitions
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_version bigint;
BEGIN
    SELECT x.* INTO q FROM queues x WHERE x.name = p_queue AND x.deleted_at IS NULL;
    IF FOUND THEN
        SELECT x.* INTO p FROM log_partitions x WHERE x.queue_id = q.id AND x.name = p_partition;
        IF FOUND OR q.fixed THEN
            RETURN;
        END IF;
    END IF;
    LOOP
        INSERT INTO queues (name, fixed) VALUES (p_queue, false)
        ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;
        SELECT x.* INTO q FROM queues x WHERE x.name = p_queue AND x.deleted_at IS NULL FOR NO KEY UPDATE;
        EXIT WHEN FOUND;  -- else it was deleted between the two: once more
    END LOOP;
    -- Looked for again, in a statement that sees what the lock's holder committed.
    SELECT x.* INTO p FROM log_partitions x WHERE x.queue_id = q.id AND x.name = p_partition;
    IF FOUND OR q.fixed THEN
        RETURN;
    END IF;
    INSERT INTO log_partitions AS x (queue_id, number, name) VALUES (q.id, q.partitions, p_partition)
    RETURNING x.* INTO p;
    UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
    UPDATE queues x SET partitions = x.partitions + 1, version = v_version WHERE x.id = q.id RETURNING x.* INTO q;
END
$$;
