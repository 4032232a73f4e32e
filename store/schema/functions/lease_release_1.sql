-- lease_release_1 ends a lease as if it had never been given: nothing counts as
-- failed, and what it covers can be claimed at once.
--
-- Promise: a row for each partition in which it was live, with its group.
--
-- Locks: the lease's advisory lock, so that a claim under way under that lease
-- has ended; then cursors in ascending partition (place 6). Indexes: leases_pkey, cursors_pkey.
CREATE FUNCTION lease_release_1(p_lease uuid) RETURNS TABLE (group_name text, partition_id bigint)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    v_lease leases;
    v_part  bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_lease::text, 0));
    SELECT l.* INTO v_lease FROM leases l WHERE l.id = p_lease;
    FOREACH v_part IN ARRAY COALESCE(v_lease.partitions, '{}') LOOP
        PERFORM FROM cursors c WHERE c.partition_id = v_part AND c.group_name = v_lease.group_name FOR NO KEY UPDATE;
        UPDATE cursors c SET lease_id = NULL, lease_end = NULL, lease_until = NULL
         WHERE c.partition_id = v_part AND c.group_name = v_lease.group_name AND c.lease_id = p_lease;
        IF FOUND THEN
            group_name := v_lease.group_name;
            partition_id := v_part;
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;
