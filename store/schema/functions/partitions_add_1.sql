-- partitions_add_1 widens a fixed queue to p_count partitions.
--
-- Promise: no row when there is no such queue; else its row as it is afterwards,
-- and whether partitions were added: not where it has that many already, and not
-- where the queue is a native one, whose partitions have names of their own.
--
-- Locks: the queue's row (place 3), the new rows, then the row of cluster (a
-- leaf). Index: queues_pkey.
CREATE FUNCTION partitions_add_1(p_queue bigint, p_count integer) RETURNS TABLE (q queues, added boolean)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_version bigint;
BEGIN
    SELECT x.* INTO q FROM queues x WHERE x.id = p_queue AND x.deleted_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    added := q.fixed AND q.partitions < p_count;
    IF added THEN
        INSERT INTO log_partitions (queue_id, number, name)
        SELECT p_queue, n, n::text FROM generate_series(q.partitions, p_count - 1) n;
        UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
        UPDATE queues x SET partitions = p_count, version = v_version WHERE x.id = p_queue RETURNING x.* INTO q;
    END IF;
    RETURN NEXT;
END
$$;
