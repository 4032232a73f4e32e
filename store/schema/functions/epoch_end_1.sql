-- epoch_end_1 finds where a partition's log ends for who has read it up to an epoch.
--
-- Promise: the base of the first segment of a later epoch, or null: there is none.
-- Epochs never fall along the log, so the range of offsets is halved.
--
-- Locks: none. Index: log_segments_pkey (about 20 looks per million offsets).
CREATE FUNCTION epoch_end_1(p_partition bigint, p_epoch integer) RETURNS bigint
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
    SELECT x.end_offset INTO v_lo FROM log_segments x WHERE x.partition_id = p_partition ORDER BY x.end_offset LIMIT 1;
    SELECT x.end_offset INTO v_hi FROM log_segments x WHERE x.partition_id = p_partition ORDER BY x.end_offset DESC LIMIT 1;
    WHILE v_lo <= v_hi LOOP
        v_mid := (v_lo + v_hi) / 2;
        SELECT x.end_offset, x.base_offset, x.leader_epoch INTO s FROM log_segments x
         WHERE x.partition_id = p_partition AND x.end_offset >= v_mid ORDER BY x.end_offset LIMIT 1;
        IF s.leader_epoch > p_epoch THEN
            v_best := s.base_offset;
            v_hi := v_mid - 1;
        ELSE
            v_lo := s.end_offset + 1;
        END IF;
    END LOOP;
    RETURN v_best;
END
$$;
