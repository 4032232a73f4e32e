-- queue_configure_1 sets a queue's options, and creates the queue if p_create.
--
-- Promise: the patch is applied under the queue's row lock, so two merges at
-- once keep each other's keys. p_options are columns of the queue by name; one
-- that they leave out keeps its value. p_configs are added to the queue's configs
-- (to none, with p_forget); a null takes that config away. Returned are the row
-- after, the row before (the table's defaults, for a new queue) and whether the
-- queue was created; the rows are null where there is none and none is to be made.
--
-- Locks: the queue's row (place 3), then the row of cluster (a leaf). Index: queues_name.
CREATE FUNCTION queue_configure_1(
    p_name     text,
    p_create   boolean,
    p_options  jsonb,
    p_forget   boolean,
    p_configs  jsonb,
    OUT q       queues,
    OUT before  queues,
    OUT created boolean
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_new queues;
BEGIN
    created := false;
    LOOP
        IF p_create THEN
            INSERT INTO queues (name, fixed) VALUES (p_name, false)
            ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;
            created := FOUND;
        END IF;
        SELECT x.* INTO before FROM queues x WHERE x.name = p_name AND x.deleted_at IS NULL FOR NO KEY UPDATE;
        EXIT WHEN FOUND OR NOT p_create;  -- else it was deleted between the two: once more
    END LOOP;
    IF before.id IS NULL THEN
        RETURN;
    END IF;
    v_new := jsonb_populate_record(before, p_options);
    v_new.configs := jsonb_strip_nulls(CASE WHEN p_forget THEN '{}' ELSE before.configs END || p_configs);
    SELECT x.* INTO q FROM queue_options_set_1(v_new) x;
END
$$;
