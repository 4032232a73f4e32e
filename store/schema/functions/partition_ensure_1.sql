-- partition_ensure_1 finds a queue and one of its partitions by name, and makes
-- what is missing: a native queue comes into being with its first message.
--
-- Promise: one row with both, or a row whose partition is NULL when the queue
-- is fixed and has none of that name. Numbers are dense, in order of creation.
-- A queue that is made here has the table's defaults.
--
-- Locks: none where both exist. Else those of partitions_ensure_1.
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
BEGIN
    SELECT x.* INTO q FROM queues x WHERE x.name = p_queue AND x.deleted_at IS NULL;
    IF FOUND THEN
        SELECT x.* INTO p FROM log_partitions x WHERE x.queue_id = q.id AND x.name = p_partition;
        IF FOUND OR q.fixed THEN
            RETURN;
        END IF;
    END IF;
    q := partitions_ensure_1(p_queue, ARRAY[p_partition]);
    SELECT x.* INTO p FROM log_partitions x WHERE x.queue_id = q.id AND x.name = p_partition;
END
$$;
