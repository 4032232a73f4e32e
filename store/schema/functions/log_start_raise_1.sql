-- log_start_raise_1 raises a partition's log start, and never lowers it or
-- passes the log's end. It is short: the rows below go in steps of their own.
-- Returns the log start as it is afterwards, null when the partition is gone.
-- Locks: the partition's row (place 4). Index: log_partitions_pkey, log_txns_pkey.
CREATE FUNCTION log_start_raise_1(p_partition bigint, p_start bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_start bigint;
    v_end   bigint;
BEGIN
    SELECT start_offset INTO v_start FROM log_partitions WHERE id = p_partition FOR NO KEY UPDATE;
    SELECT COALESCE(max(end_offset) + 1, 0) INTO v_end FROM log_txns WHERE partition_id = p_partition;
    IF v_start < LEAST(p_start, v_end) THEN
        v_start := LEAST(p_start, v_end);
        UPDATE log_partitions SET start_offset = v_start WHERE id = p_partition;
    END IF;
    RETURN v_start;
END
$$;
