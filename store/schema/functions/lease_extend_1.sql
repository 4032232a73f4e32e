-- lease_extend_1 lets a live lease run on.
--
-- Promise: in how many partitions it was live, and in how many ms from now it ends
-- there, by the database's clock: p_ms, or as long as it was asked for at first; a
-- later end stays. 0 partitions: it is over, and nothing is written. Saying it
-- twice does no more than once.
--
-- Locks: cursors in ascending partition (place 6), then the lease's row.
-- Indexes: leases_pkey, cursors_pkey.
CREATE FUNCTION lease_extend_1(p_lease uuid, p_ms bigint, OUT renewed integer, OUT until timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_lease leases;
    v_part  bigint;
    v_until timestamptz;
BEGIN
    renewed := 0;
    SELECT l.* INTO v_lease FROM leases l WHERE l.id = p_lease;
    FOREACH v_part IN ARRAY COALESCE(v_lease.partitions, '{}') LOOP
        PERFORM FROM cursors c WHERE c.partition_id = v_part AND c.group_name = v_lease.group_name FOR NO KEY UPDATE;
        UPDATE cursors c
           SET lease_until = GREATEST(c.lease_until, clock_timestamp() + COALESCE(p_ms, v_lease.lease_ms) * interval '1 millisecond')
         WHERE c.partition_id = v_part AND c.group_name = v_lease.group_name
           AND c.lease_id = p_lease AND c.lease_until > clock_timestamp()
        RETURNING c.lease_until INTO v_until;
        IF FOUND THEN
            renewed := renewed + 1;
            until := GREATEST(until, v_until);
        END IF;
    END LOOP;
    IF renewed > 0 THEN
        UPDATE leases l SET until = lease_extend_1.until WHERE l.id = p_lease;
    END IF;
END
$$;
