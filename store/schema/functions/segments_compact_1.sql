-- segments_compact_1 puts segments of one partition in the place of those they
-- were made from by taking messages out.
--
-- Promise: how many were replaced, from the first on: the stored one was the
-- one named (end offset and header; a header tells every batch's length and
-- count, and messages are only ever taken out, so no two versions share one) and is
-- now the new one, or, with no records, gone. At the first that is not, it ends,
-- so what is done is a beginning of the list: a repeat of the call, or another broker's
-- compaction. (A tombstone may only go when all below it was compacted.) The
-- partition's last row is neither removed nor cut at its end, so that whoever reads on
-- below the log's end finds something. Null when the queue is gone or no longer compacted.
-- log_txns is not touched: offsets, ids and verdicts stay what they were.
--
-- Locks: the partition's row (place 4): appends and compactions wait for each
-- other, for as long as this call's rows take. Index: log_segments_pkey.
CREATE FUNCTION segments_compact_1(
    p_partition bigint,
    p_end       bigint[],
    p_was       bytea[],    -- the header read
    p_new_end   bigint[],   -- at most p_end
    p_records   integer[],  -- 0: nothing is left
    p_size      integer[],  -- bytes as served
    p_header    bytea[],
    p_data      bytea[]
) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_last bigint;
    v_done integer := 0;
BEGIN
    PERFORM FROM log_partitions WHERE id = p_partition FOR NO KEY UPDATE;
    PERFORM FROM log_partitions p
      CROSS JOIN LATERAL (SELECT x.cleanup_compact, x.deleted_at FROM queues x WHERE x.id = p.queue_id LIMIT 1) q
     WHERE p.id = p_partition AND q.cleanup_compact AND q.deleted_at IS NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT x.end_offset INTO v_last FROM log_segments x WHERE x.partition_id = p_partition
     ORDER BY x.end_offset DESC LIMIT 1;
    FOR i IN 1 .. cardinality(p_end) LOOP
        IF p_end[i] = v_last AND (p_records[i] = 0 OR p_new_end[i] <> v_last) THEN
            EXIT;
        END IF;
        IF p_records[i] = 0 THEN
            DELETE FROM log_segments
             WHERE partition_id = p_partition AND end_offset = p_end[i] AND header = p_was[i];
        ELSE
            UPDATE log_segments
               SET end_offset = p_new_end[i], records = p_records[i], size = p_size[i],
                   header = p_header[i], data = p_data[i]
             WHERE partition_id = p_partition AND end_offset = p_end[i] AND header = p_was[i];
        END IF;
        EXIT WHEN NOT FOUND;
        v_done := v_done + 1;
    END LOOP;
    RETURN v_done;
END
$$;
