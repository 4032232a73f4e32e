-- queue_configure_1 sets a queue's options, and creates the queue if p_create.
--
-- Promise: the patch is applied under the queue's row lock, so two merges at
-- once keep each other's keys. p_options are columns of the queue by name; one
-- that they leave out keeps its value. p_configs are added to the queue's configs
-- (to none, with p_forget); a null takes that config away. Returned are the row
-- after, the row before (the table's defaults, for a new queue) and whether the
-- queue was created; JSON null where there is none and none is to be made. A repeat
-- of a call is answered with what its first attempt did.
--
-- Locks: of call_begin_1, the queue's row (place 3), then the rows of cluster and
-- calls (leaves). Index: queues_name.
CREATE FUNCTION queue_configure_1(
    p_call     uuid,
    p_name     text,
    p_create   boolean,
    p_options  jsonb,
    p_forget   boolean,
    p_configs  jsonb
) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer  jsonb := call_begin_1(p_call);
    v_before  queues;
    v_new     queues;
    v_created boolean := false;
BEGIN
    IF v_answer IS NOT NULL THEN
        RETURN v_answer;
    END IF;
    LOOP
        IF p_create THEN
            INSERT INTO queues (name, fixed) VALUES (p_name, false)
            ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;
            v_created := FOUND;
        END IF;
        SELECT q.* INTO v_before FROM queues q WHERE q.name = p_name AND q.deleted_at IS NULL FOR NO KEY UPDATE;
        EXIT WHEN FOUND OR NOT p_create;  -- else it was deleted between the two: once more
    END LOOP;
    IF v_before.id IS NULL THEN
        v_answer := 'null';
    ELSE
        v_new := jsonb_populate_record(v_before, p_options);
        v_new.configs := jsonb_strip_nulls(CASE WHEN p_forget THEN '{}' ELSE v_before.configs END || p_configs);
        SELECT jsonb_build_object('after', to_jsonb(q), 'before', to_jsonb(v_before), 'created', v_created)
          INTO v_answer FROM queue_options_set_1(v_new) q;
    END IF;
    PERFORM call_end_1(p_call, v_answer);
    RETURN v_answer;
END
$$;
