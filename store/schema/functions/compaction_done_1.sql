-- compaction_done_1 notes how far a partition is compacted.
--
-- Promise: the highest note wins, so of two brokers' the one that says more; one
-- of the same height replaces the other, because it tells of later tombstones.
--
-- Locks: the partition's row (place 4), so that none is left of a partition that
-- is swept at the same time. Index: log_compactions_pkey.
CREATE FUNCTION compaction_done_1(
    p_partition      bigint,
    p_clean_to       bigint,
    p_clean_bytes    bigint,
    p_clean_total    bigint,
    p_tombstones_due timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM FROM log_partitions WHERE id = p_partition FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO log_compactions AS c VALUES (p_partition, p_clean_to, p_clean_bytes, p_clean_total, p_tombstones_due)
    ON CONFLICT (partition_id) DO UPDATE
       SET clean_to = EXCLUDED.clean_to, clean_bytes = EXCLUDED.clean_bytes, clean_total = EXCLUDED.clean_total,
           tombstones_due = EXCLUDED.tombstones_due
     WHERE c.clean_to <= EXCLUDED.clean_to;
END
$$;
