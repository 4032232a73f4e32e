-- partitions_add_1 widens a fixed queue to p_count partitions.
--
-- Promise: JSON null when there is no such queue; else its row as it is afterwards,
-- and whether partitions were added: not where it has that many already, and not
-- where the queue is a native one, whose partitions have names of their own. A
-- repeat of a call is answered with what its first attempt did.
--
-- Locks: of call_begin_1, the queue's row (place 3), the new rows, then the rows of
-- cluster and calls (leaves). Index: queues_pkey.
CREATE FUNCTION partitions_add_1(p_call uuid, p_queue bigint, p_count integer) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer  jsonb := call_begin_1(p_call);
    v_queue   queues;
    v_added   boolean;
    v_version bigint;
BEGIN
    IF v_answer IS NOT NULL THEN
        RETURN v_answer;
    END IF;
    SELECT q.* INTO v_queue FROM queues q WHERE q.id = p_queue AND q.deleted_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        v_answer := 'null';
    ELSE
        v_added := v_queue.fixed AND v_queue.partitions < p_count;
        IF v_added THEN
            INSERT INTO log_partitions (queue_id, number, name)
            SELECT p_queue, n, n::text FROM generate_series(v_queue.partitions, p_count - 1) n;
            UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
            UPDATE queues q SET partitions = p_count, version = v_version WHERE q.id = p_queue RETURNING q.* INTO v_queue;
        END IF;
        v_answer := jsonb_build_object('queue', to_jsonb(v_queue), 'added', v_added);
    END IF;
    PERFORM call_end_1(p_call, v_answer);
    RETURN v_answer;
END
$$;
