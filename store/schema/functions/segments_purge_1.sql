-- segments_purge_1 deletes at most p_rows segments that lie wholly below their
-- partition's log start. Returns how many.
--
-- Locks: none is needed, readers below the log start are refused before they
-- look. Index: log_segments_pkey.
CREATE FUNCTION segments_purge_1(p_partition bigint, p_rows integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_start bigint;
    v_to    bigint;
    v_n     integer;
BEGIN
    SELECT start_offset INTO v_start FROM log_partitions WHERE id = p_partition;
    SELECT max(x.end_offset) INTO v_to
      FROM (SELECT end_offset FROM log_segments
             WHERE partition_id = p_partition AND end_offset < v_start
             ORDER BY end_offset LIMIT p_rows) x;
    DELETE FROM log_segments WHERE partition_id = p_partition AND end_offset <= v_to;
    GET DIAGNOSTICS v_n = ROW_COUNT;
    RETURN v_n;
END
$$;
