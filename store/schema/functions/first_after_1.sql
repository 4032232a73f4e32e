-- first_after_1 finds where a partition's log goes on after a moment.
--
-- Promise: the base of the first segment stored after p_since by the database's
-- clock, or the partition's next offset. created_at never falls along the log,
-- so the range of offsets is halved.
--
-- Locks: none. Index: log_segments_pkey, log_txns_pkey.
CREATE FUNCTION first_after_1(p_partition bigint, p_since timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_lo   bigint;
    v_hi   bigint;
    v_mid  bigint;
    v_best bigint;
    s      record;
BEGIN
    SELECT t.end_offset + 1 INTO v_best FROM log_txns t WHERE t.partition_id = p_partition
     ORDER BY t.end_offset DESC LIMIT 1;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT x.end_offset INTO v_lo FROM log_segments x WHERE x.partition_id = p_partition ORDER BY x.end_offset LIMIT 1;
    IF NOT FOUND THEN
        RETURN v_best;
    END IF;
    v_hi := v_best - 1;
    WHILE v_lo <= v_hi LOOP
        v_mid := (v_lo + v_hi) / 2;
        SELECT x.end_offset, x.base_offset, x.created_at INTO s FROM log_segments x
         WHERE x.partition_id = p_partition AND x.end_offset >= v_mid ORDER BY x.end_offset LIMIT 1;
        IF NOT FOUND THEN
            v_hi := v_mid - 1;
        ELSIF s.created_at > p_since THEN
            v_best := s.base_offset;
            v_hi := v_mid - 1;
        ELSE
            v_lo := s.end_offset + 1;
        END IF;
    END LOOP;
    RETURN v_best;
END
$$;
