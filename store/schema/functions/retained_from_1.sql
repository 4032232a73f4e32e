-- retained_from_1 finds where a partition's log may start so that what is left
-- has p_bytes bytes.
--
-- Promise: as Kafka, the oldest segments go while those after them still have
-- p_bytes; null when none may go. The running sizes of the rows say it, so the
-- range of offsets is halved; where compaction took something out of the middle,
-- the sizes themselves are added up, from the newest down.
--
-- Locks: none. Index: log_segments_pkey, log_compactions_pkey.
CREATE FUNCTION retained_from_1(p_partition bigint, p_bytes bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_lo   bigint;
    v_hi   bigint;
    v_sum  bigint;
    v_best bigint;
    s      record;
BEGIN
    SELECT x.end_offset, x.total_size INTO v_hi, v_sum FROM log_segments x WHERE x.partition_id = p_partition
     ORDER BY x.end_offset DESC LIMIT 1;
    SELECT x.end_offset, x.total_size INTO s FROM log_segments x WHERE x.partition_id = p_partition
     ORDER BY x.end_offset LIMIT 1;
    -- Compaction makes this sum too large, never too small.
    IF NOT FOUND OR v_sum - s.total_size < p_bytes THEN
        RETURN NULL;
    END IF;
    PERFORM FROM log_compactions c WHERE c.partition_id = p_partition;
    IF FOUND THEN
        v_sum := 0;
        FOR s IN SELECT x.end_offset, x.size FROM log_segments x WHERE x.partition_id = p_partition
                  ORDER BY x.end_offset DESC
        LOOP
            IF v_sum >= p_bytes THEN
                RETURN s.end_offset + 1;
            END IF;
            v_sum := v_sum + s.size;
        END LOOP;
        RETURN NULL;
    END IF;
    v_best := s.end_offset;
    v_lo := v_best + 1;
    WHILE v_lo <= v_hi LOOP
        SELECT x.end_offset, x.total_size INTO s FROM log_segments x
         WHERE x.partition_id = p_partition AND x.end_offset >= (v_lo + v_hi) / 2 ORDER BY x.end_offset LIMIT 1;
        IF v_sum - s.total_size >= p_bytes THEN
            v_best := s.end_offset;
            v_lo := s.end_offset + 1;
        ELSE
            v_hi := (v_lo + v_hi) / 2 - 1;
        END IF;
    END LOOP;
    RETURN v_best + 1;
END
$$;
