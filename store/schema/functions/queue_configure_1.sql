-- queue_configure_1 sets a queue's options and creates the queue if need be.
--
-- Promise: the patch is applied under the queue's row lock, so two merges at
-- once keep each other's keys. A NULL option is one the patch does not name: it
-- keeps its value where p_merge, else it goes back to the default given here.
-- Returned are the row after, the row before (the defaults, for a new queue)
-- and whether the queue was created.
--
-- Locks: the queue's row (place 3), then the row of cluster (a leaf). Index: queues_name.
CREATE FUNCTION queue_configure_1(
    p_name                      text,
    p_merge                     boolean,
    p_window_seconds            integer,
    p_max_message_bytes         integer,
    p_retention_ms              bigint,
    p_default_window_seconds    integer,
    p_default_max_message_bytes integer,
    p_default_retention_ms      bigint,
    OUT q                       queues,
    OUT before                  queues,
    OUT created                 boolean
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_version bigint;
BEGIN
    LOOP
        INSERT INTO queues (name, fixed, dedup_window_seconds, max_message_bytes, retention_ms)
        VALUES (p_name, false, p_default_window_seconds, p_default_max_message_bytes, p_default_retention_ms)
        ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;
        created := FOUND;
        SELECT x.* INTO before FROM queues x WHERE x.name = p_name AND x.deleted_at IS NULL FOR NO KEY UPDATE;
        EXIT WHEN FOUND;  -- else it was deleted between the two: once more
    END LOOP;
    UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
    UPDATE queues x
       SET dedup_window_seconds = COALESCE(p_window_seconds,
                                           CASE WHEN p_merge THEN x.dedup_window_seconds ELSE p_default_window_seconds END),
           window_from = CASE WHEN p_window_seconds IS NOT NULL THEN 'configured'
                              WHEN p_merge THEN x.window_from ELSE 'default' END,
           max_message_bytes = COALESCE(p_max_message_bytes,
                                        CASE WHEN p_merge THEN x.max_message_bytes ELSE p_default_max_message_bytes END),
           retention_ms = COALESCE(p_retention_ms,
                                   CASE WHEN p_merge THEN x.retention_ms ELSE p_default_retention_ms END),
           version = v_version
     WHERE x.id = before.id
    RETURNING x.* INTO q;
END
$$;
