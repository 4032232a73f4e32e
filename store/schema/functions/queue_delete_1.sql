-- queue_delete_1 puts a tombstone on a queue: its name is free at once, its rows
-- wait for deleted_sweep_1.
--
-- Promise: JSON null when there is no such queue, else its row. When this returns
-- no append is half way: later ones find the tombstone after their lock. A repeat of
-- a call is answered with what its first attempt did, until the sweep is through: the
-- tombstone names the call. There is no row of calls, nor any other new one: on a full disk
-- there may be no page for it, and this is what frees one.
--
-- Locks: the queue's row (place 3), its partitions in ascending id (place 4), the row
-- of cluster (a leaf).
CREATE FUNCTION queue_delete_1(p_call uuid, p_id bigint) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer  jsonb;
    v_deleted boolean;
    v_by      uuid;
    v_version bigint;
BEGIN
    SELECT to_jsonb(q), q.deleted_at IS NOT NULL, q.deleted_by INTO v_answer, v_deleted, v_by
      FROM queues q WHERE q.id = p_id FOR NO KEY UPDATE;
    IF NOT FOUND OR v_deleted AND v_by IS DISTINCT FROM p_call THEN
        RETURN 'null';
    ELSIF v_deleted THEN
        RETURN v_answer;
    END IF;
    PERFORM 1 FROM log_partitions WHERE queue_id = p_id ORDER BY id FOR NO KEY UPDATE;
    UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
    UPDATE queues q SET deleted_at = clock_timestamp(), deleted_by = p_call, version = v_version
     WHERE q.id = p_id RETURNING to_jsonb(q) INTO v_answer;
    RETURN v_answer;
END
$$;
