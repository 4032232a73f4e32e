-- queue_create_1 creates a queue, with partitions "0", "1", … where it is fixed.
--
-- Promise: no row when the name is taken, and nothing is written then; else the
-- queue's row. Twenty callers at once: one row for one of them.
--
-- Locks: the new rows, then the row of cluster (a leaf). A second creator of the
-- same name waits for the first in the index queues_name.
CREATE FUNCTION queue_create_1(
    p_name              text,
    p_fixed             boolean,
    p_partitions        integer,
    p_window_seconds    integer,
    p_window_from       text,
    p_max_message_bytes integer,
    p_retention_ms      bigint
) RETURNS SETOF queues
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_id      bigint;
    v_version bigint;
BEGIN
    INSERT INTO queues (name, fixed, partitions, dedup_window_seconds, window_from, max_message_bytes, retention_ms)
    VALUES (p_name, p_fixed, p_partitions, p_window_seconds, p_window_from, p_max_message_bytes, p_retention_ms)
    ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING
    RETURNING id INTO v_id;
    IF v_id IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO log_partitions (queue_id, number, name)
    SELECT v_id, n, n::text FROM generate_series(0, p_partitions - 1) n;
    UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
    RETURN QUERY UPDATE queues SET version = v_version WHERE id = v_id RETURNING *;
END
$$;
