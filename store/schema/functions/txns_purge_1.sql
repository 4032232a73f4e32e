-- txns_purge_1 deletes at most p_rows sidecar rows, and no more after p_bytes of ids,
-- that nothing needs any more: older than the deduplication window, the queue's completed retention and p_keep
-- seconds, on the database's clock, and never the newest one, which says the next offset. txns_start is
-- raised with them, so that a probe knows where its knowledge ends. Producer
-- states unused for p_producers seconds go too, and sorted runs below, p_rows of
-- each. Returns how many of the first two went, and whether there may be more.
-- Locks: the partition's row (place 4): the window is read under it, so none
-- is purged that an append is about to look for. Indexes: log_txns_pkey,
-- producers_pkey, log_run_blocks_pkey.
CREATE FUNCTION txns_purge_1(p_partition bigint, p_rows integer, p_bytes bigint, p_keep integer, p_producers integer,
    OUT deleted integer, OUT more boolean)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_queue  bigint;
    v_keep   integer;
    v_now    timestamptz;
    v_newest bigint;
    v_to     bigint;
    v_rows   bigint; -- how many, or up to where
    v_bytes  bigint;
    v_block  integer;
    v_n      integer;
BEGIN
    SELECT queue_id INTO v_queue FROM log_partitions WHERE id = p_partition FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    SELECT GREATEST(q.dedup_window_seconds, q.completed_retention_seconds, p_keep) INTO v_keep
      FROM queues q WHERE q.id = v_queue;
    SELECT end_offset INTO v_newest FROM log_txns
     WHERE partition_id = p_partition ORDER BY end_offset DESC LIMIT 1;
    SELECT max(x.end_offset), count(*), sum(x.size) INTO v_to, v_rows, v_bytes
      FROM (SELECT y.*, sum(y.size) OVER (ORDER BY y.end_offset) - y.size AS before
              FROM (SELECT end_offset, created_at, pg_column_size(hashes) AS size FROM log_txns
                     WHERE partition_id = p_partition AND end_offset < v_newest
                     ORDER BY end_offset LIMIT p_rows) y) x
     WHERE x.before < p_bytes AND x.created_at < v_now - make_interval(secs => v_keep);
    IF v_to IS NOT NULL THEN
        UPDATE log_partitions SET txns_start = v_to + 1 WHERE id = p_partition;
    END IF;
    DELETE FROM log_txns WHERE partition_id = p_partition AND end_offset <= v_to;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    more := v_rows = p_rows OR COALESCE(v_bytes >= p_bytes, false);
    SELECT max(x.producer_id), count(*) INTO v_to, v_rows
      FROM (SELECT producer_id FROM producers
             WHERE partition_id = p_partition AND updated_at < v_now - make_interval(secs => p_producers)
             ORDER BY producer_id LIMIT p_rows) x;
    DELETE FROM producers
     WHERE partition_id = p_partition AND producer_id <= v_to
       AND updated_at < v_now - make_interval(secs => p_producers);
    GET DIAGNOSTICS v_n = ROW_COUNT;
    deleted := deleted + v_n;
    more := more OR v_rows = p_rows;
    -- Runs that lie wholly below.
    SELECT txns_start INTO v_to FROM log_partitions WHERE id = p_partition;
    SELECT x.last_offset, x.block INTO v_rows, v_block FROM log_run_blocks x
     WHERE x.partition_id = p_partition AND x.last_offset < v_to
     ORDER BY x.last_offset, x.block OFFSET p_rows - 1 LIMIT 1;
    IF FOUND THEN
        more := true;
        DELETE FROM log_run_blocks WHERE partition_id = p_partition AND (last_offset, block) <= (v_rows, v_block);
    ELSE
        DELETE FROM log_run_blocks WHERE partition_id = p_partition AND last_offset < v_to;
        DELETE FROM log_runs WHERE partition_id = p_partition AND last_offset < v_to;
    END IF;
END
$$;
