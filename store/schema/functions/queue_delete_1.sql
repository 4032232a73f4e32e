-- queue_delete_1 puts a tombstone on a queue: its name is free at once, its rows
-- wait for deleted_sweep_1.
--
-- Promise: JSON null when there is no such queue, else its row. When this returns
-- no append is half way: later ones find the tombstone after their lock. A repeat of
-- a call is answered with what its first attempt did.
--
-- Locks: of call_begin_1, the queue's row (place 3), its partitions in ascending id
-- (place 4), the rows of cluster and calls (leaves).
CREATE FUNCTION queue_delete_1(p_call uuid, p_id bigint) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer  jsonb := call_begin_1(p_call);
    v_version bigint;
BEGIN
    IF v_answer IS NOT NULL THEN
        RETURN v_answer;
    END IF;
    PERFORM 1 FROM queues WHERE id = p_id AND deleted_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        v_answer := 'null';
    ELSE
        PERFORM 1 FROM log_partitions WHERE queue_id = p_id ORDER BY id FOR NO KEY UPDATE;
        UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
        UPDATE queues q SET deleted_at = clock_timestamp(), version = v_version WHERE q.id = p_id RETURNING to_jsonb(q) INTO v_answer;
    END IF;
    PERFORM call_end_1(p_call, v_answer);
    RETURN v_answer;
END
$$;
