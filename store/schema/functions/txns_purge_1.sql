-- txns_purge_1 deletes at most p_rows sidecar rows that nothing needs any more:
-- older than the deduplication window, the queue's completed retention and p_keep
-- seconds, on the database's clock, and never the newest one, which says the next offset. txns_start is
-- raised with them, so that a probe knows where its knowledge ends. Producer
-- states unused for p_producers seconds go too, and sorted runs below. Returns the rows deleted.
-- Locks: the partition's row (place 4): the window is read under it, so none
-- is purged that an append is about to look for. Index: log_txns_pkey.
CREATE FUNCTION txns_purge_1(p_partition bigint, p_rows integer, p_keep integer, p_producers integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_keep   integer;
    v_now    timestamptz;
    v_newest bigint;
    v_to     bigint;
    v_n      integer;
    v_m      integer;
BEGIN
    PERFORM FROM log_partitions WHERE id = p_partition FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    SELECT GREATEST(q.dedup_window_seconds, q.completed_retention_seconds, p_keep) INTO v_keep
      FROM log_partitions p JOIN queues q ON q.id = p.queue_id WHERE p.id = p_partition;
    SELECT end_offset INTO v_newest FROM log_txns
     WHERE partition_id = p_partition ORDER BY end_offset DESC LIMIT 1;
    SELECT max(x.end_offset) INTO v_to
      FROM (SELECT end_offset, created_at FROM log_txns
             WHERE partition_id = p_partition AND end_offset < v_newest
             ORDER BY end_offset LIMIT p_rows) x
     WHERE x.created_at < v_now - make_interval(secs => v_keep);
    IF v_to IS NOT NULL THEN
        UPDATE log_partitions SET txns_start = v_to + 1 WHERE id = p_partition;
    END IF;
    DELETE FROM log_txns WHERE partition_id = p_partition AND end_offset <= v_to;
    GET DIAGNOSTICS v_n = ROW_COUNT;
    DELETE FROM producers
     WHERE partition_id = p_partition AND updated_at < v_now - make_interval(secs => p_producers);
    GET DIAGNOSTICS v_m = ROW_COUNT;
    v_n := v_n + v_m;
    -- Runs that lie wholly below.
    SELECT txns_start INTO v_to FROM log_partitions WHERE id = p_partition;
    DELETE FROM log_run_blocks WHERE (partition_id, last_offset, first_hash) IN
        (SELECT x.partition_id, x.last_offset, x.first_hash FROM log_run_blocks x
          WHERE x.partition_id = p_partition AND x.last_offset < v_to
          ORDER BY x.last_offset, x.first_hash LIMIT p_rows);
    GET DIAGNOSTICS v_m = ROW_COUNT;
    IF v_m < p_rows THEN
        DELETE FROM log_runs WHERE partition_id = p_partition AND last_offset < v_to;
    END IF;
    RETURN v_n + v_m;
END
$$;
