-- cursors_delete_1 deletes a group's positions, in the partitions p_partition or,
-- where that is null, all of them and the group with them.
--
-- Promise: how many there were; −1, and nothing is deleted, where a member holds
-- a lease on one of them.
--
-- Locks: the group's subscriptions, its cursors in ascending partition (place 6).
-- Indexes: cursors_group, cursors_pkey, subscriptions_pkey.
CREATE FUNCTION cursors_delete_1(p_group text, p_partition bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_parts bigint[];
    v_queue bigint;
    v_n     integer;
BEGIN
    IF p_partition IS NULL THEN
        FOR v_queue IN SELECT DISTINCT p.queue_id FROM cursors c JOIN log_partitions p ON p.id = c.partition_id
                        WHERE c.group_name = p_group ORDER BY p.queue_id LOOP
            PERFORM 1 FROM subscriptions s WHERE s.queue_id = v_queue AND s.group_name = p_group FOR UPDATE;
        END LOOP;
    END IF;
    v_parts := ARRAY(SELECT c.partition_id FROM cursors c
                      WHERE c.group_name = p_group AND (p_partition IS NULL OR c.partition_id = ANY (p_partition))
                      ORDER BY c.partition_id FOR UPDATE);
    IF EXISTS (SELECT FROM cursors c WHERE c.group_name = p_group AND c.partition_id = ANY (v_parts)
                  AND c.lease_until > clock_timestamp()) THEN
        RETURN -1;
    END IF;
    IF p_partition IS NULL THEN
        DELETE FROM subscriptions s
         WHERE s.group_name = p_group
           AND s.queue_id IN (SELECT p.queue_id FROM log_partitions p WHERE p.id = ANY (v_parts));
    END IF;
    DELETE FROM cursors c WHERE c.group_name = p_group AND c.partition_id = ANY (v_parts);
    GET DIAGNOSTICS v_n = ROW_COUNT;
    RETURN v_n;
END
$$;
