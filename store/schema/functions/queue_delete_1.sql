-- queue_delete_1 puts a tombstone on a queue: its name is free at once, its rows
-- wait for deleted_sweep_1.
--
-- Promise: no row when there is no such queue, else its row. When this returns
-- no append is half way: later ones find the tombstone after their lock.
--
-- Locks: the queue's row (place 3), its partitions in ascending id (place 4), the
-- row of cluster (a leaf).
CREATE FUNCTION queue_delete_1(p_id bigint) RETURNS SETOF queues
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_version bigint;
BEGIN
    PERFORM 1 FROM queues WHERE id = p_id AND deleted_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM 1 FROM log_partitions WHERE queue_id = p_id ORDER BY id FOR NO KEY UPDATE;
    UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
    RETURN QUERY UPDATE queues SET deleted_at = clock_timestamp(), version = v_version WHERE id = p_id RETURNING *;
END
$$;
