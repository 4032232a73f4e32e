-- queue_create_1 creates a queue, with partitions "0", "1", … where it is fixed.
--
-- Promise: JSON null when the name is taken, and no queue is written then; else the
-- queue's row. Twenty callers at once: the row for one of them. p_options are
-- columns of the queue by name; what they leave out has the table's default. A
-- repeat of a call is answered with what its first attempt did.
--
-- Locks: of call_begin_1, the new rows, then the rows of cluster and calls (leaves). A
-- second creator of the same name waits for the first in the index queues_name.
CREATE FUNCTION queue_create_1(
    p_call       uuid,
    p_name       text,
    p_fixed      boolean,
    p_partitions integer,
    p_options    jsonb
) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer jsonb := call_begin_1(p_call);
    v_queue  queues;
BEGIN
    IF v_answer IS NOT NULL THEN
        RETURN v_answer;
    END IF;
    INSERT INTO queues AS x (name, fixed, partitions) VALUES (p_name, p_fixed, p_partitions)
    ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING
    RETURNING x.* INTO v_queue;
    IF v_queue.id IS NULL THEN
        v_answer := 'null';
    ELSE
        INSERT INTO log_partitions (queue_id, number, name)
        SELECT v_queue.id, n, n::text FROM generate_series(0, p_partitions - 1) n;
        SELECT to_jsonb(q) INTO v_answer FROM queue_options_set_1(jsonb_populate_record(v_queue, p_options)) q;
    END IF;
    PERFORM call_end_1(p_call, v_answer);
    RETURN v_answer;
END
$$;
