-- queue_options_set_1 writes the options of a queue's row: the one list of the
-- columns that are options.
--
-- Promise: the row as it is afterwards, with a catalog version of its own.
--
-- Locks: the queue's row, which the caller holds, then the row of cluster (a
-- leaf). Index: queues_pkey.
CREATE FUNCTION queue_options_set_1(p_queue queues) RETURNS SETOF queues
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_version bigint;
BEGIN
    UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
    RETURN QUERY UPDATE queues SET
        dedup_window_seconds = p_queue.dedup_window_seconds,
        window_from = p_queue.window_from,
        dedup_source = p_queue.dedup_source,
        dedup_max_ids = p_queue.dedup_max_ids,
        max_message_bytes = p_queue.max_message_bytes,
        retention_ms = p_queue.retention_ms,
        retention_bytes = p_queue.retention_bytes,
        log_append_time = p_queue.log_append_time,
        timestamp_before_max_ms = p_queue.timestamp_before_max_ms,
        timestamp_after_max_ms = p_queue.timestamp_after_max_ms,
        cleanup_delete = p_queue.cleanup_delete,
        cleanup_compact = p_queue.cleanup_compact,
        compaction_lag_min_ms = p_queue.compaction_lag_min_ms,
        compaction_lag_max_ms = p_queue.compaction_lag_max_ms,
        tombstone_retention_ms = p_queue.tombstone_retention_ms,
        dirty_ratio_min = p_queue.dirty_ratio_min,
        compression = p_queue.compression,
        completed_retention_seconds = p_queue.completed_retention_seconds,
        lease_seconds = p_queue.lease_seconds,
        retry_limit = p_queue.retry_limit,
        retry_delay_ms = p_queue.retry_delay_ms,
        delay_seconds = p_queue.delay_seconds,
        retention_groups = p_queue.retention_groups,
        configs = p_queue.configs,
        namespace = p_queue.namespace,
        task = p_queue.task,
        version = v_version
     WHERE id = p_queue.id
    RETURNING *;
END
$$;
