-- queue_create_1 creates a queue, with partitions "0", "1", … where it is fixed.
--
-- Promise: no row when the name is taken, and nothing is written then; else the
-- queue's row. Twenty callers at once: one row for one of them. p_options are
-- columns of the queue by name; what they leave out has the table's default.
--
-- Locks: the new rows, then the row of cluster (a leaf). A second creator of the
-- same name waits for the first in the index queues_name.
CREATE FUNCTION queue_create_1(
    p_name       text,
    p_fixed      boolean,
    p_partitions integer,
    p_options    jsonb
) RETURNS SETOF queues
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_queue queues;
BEGIN
    INSERT INTO queues AS x (name, fixed, partitions) VALUES (p_name, p_fixed, p_partitions)
    ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING
    RETURNING x.* INTO v_queue;
    IF v_queue.id IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO log_partitions (queue_id, number, name)
    SELECT v_queue.id, n, n::text FROM generate_series(0, p_partitions - 1) n;
    RETURN QUERY SELECT * FROM queue_options_set_1(jsonb_populate_record(v_queue, p_options));
END
$$;
