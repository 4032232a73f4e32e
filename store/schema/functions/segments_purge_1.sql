-- segments_purge_1 deletes segments that lie wholly below their partition's log
-- start: at most p_rows of them, and no more after p_bytes, because each byte
-- lies in a chunk of TOAST that is deleted for itself. Returns how many, and
-- whether there are more.
--
-- Locks: none is needed, readers below the log start are refused before they
-- look. Index: log_segments_pkey.
CREATE FUNCTION segments_purge_1(p_partition bigint, p_rows integer, p_bytes bigint, OUT deleted integer, OUT more boolean)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_start bigint;
    v_to    bigint;
BEGIN
    SELECT start_offset INTO v_start FROM log_partitions WHERE id = p_partition;
    SELECT max(x.end_offset) INTO v_to
      FROM (SELECT y.end_offset, sum(y.size) OVER (ORDER BY y.end_offset) - y.size AS before
              FROM (SELECT end_offset, size FROM log_segments
                     WHERE partition_id = p_partition AND end_offset < v_start
                     ORDER BY end_offset LIMIT p_rows) y) x
     WHERE x.before < p_bytes;
    DELETE FROM log_segments WHERE partition_id = p_partition AND end_offset <= v_to;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    more := EXISTS (SELECT FROM log_segments
                     WHERE partition_id = p_partition AND end_offset > v_to AND end_offset < v_start);
END
$$;
