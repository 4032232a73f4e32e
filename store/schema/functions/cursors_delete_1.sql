-- cursors_delete_1 deletes a group's positions: in the partitions p_partition; where
-- that is null, in queue p_queue; where that is null too, all of them. Without a
-- list of partitions the group's subscriptions there go with them, if p_subscriptions.
--
-- Promise: how many positions and subscriptions there were; −1, and nothing is
-- deleted, where a member holds a lease on one of them; −2 where slot p_slot of the
-- group coordinator has another epoch than p_slot_epoch by now; 0 asks for no epoch.
--
-- Locks: the slot, shared (place 5); the group's subscriptions in ascending queue,
-- its cursors in ascending partition (place 6), its activity (place 7).
-- Indexes: group_slots_pkey, group_activity_pkey, cursors_group, cursors_pkey, subscriptions_group, log_partitions_pkey.
CREATE FUNCTION cursors_delete_1(
    p_group         text,
    p_slot          integer,
    p_slot_epoch    bigint,
    p_queue         bigint,
    p_partition     bigint[],
    p_subscriptions boolean
) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_queues bigint[] := '{}';
    v_parts  bigint[];
    v_n      integer;
    v_subs   integer := 0;
BEGIN
    IF p_slot_epoch <> 0 THEN
        PERFORM 1 FROM group_slots s WHERE s.slot = p_slot AND s.epoch = p_slot_epoch FOR SHARE;
        IF NOT FOUND THEN
            RETURN -2;
        END IF;
    END IF;
    IF p_partition IS NULL AND p_subscriptions THEN
        v_queues := ARRAY(SELECT s.queue_id FROM subscriptions s
                           WHERE s.group_name = p_group AND (p_queue IS NULL OR s.queue_id = p_queue)
                           ORDER BY s.queue_id FOR UPDATE);
    END IF;
    v_parts := ARRAY(SELECT c.partition_id FROM cursors c
                      WHERE c.group_name = p_group
                        AND CASE WHEN p_partition IS NOT NULL THEN c.partition_id = ANY (p_partition)
                                 ELSE p_queue IS NULL
                                   OR EXISTS (SELECT FROM log_partitions p WHERE p.id = c.partition_id AND p.queue_id = p_queue) END
                      ORDER BY c.partition_id FOR UPDATE);
    IF EXISTS (SELECT FROM cursors c WHERE c.group_name = p_group AND c.partition_id = ANY (v_parts)
                  AND c.lease_until > clock_timestamp()) THEN
        RETURN -1;
    END IF;
    IF v_queues <> '{}' THEN
        DELETE FROM subscriptions s WHERE s.group_name = p_group AND s.queue_id = ANY (v_queues);
        GET DIAGNOSTICS v_subs = ROW_COUNT;
    END IF;
    DELETE FROM retries r WHERE r.group_name = p_group AND r.partition_id = ANY (v_parts);
    DELETE FROM cursors c WHERE c.group_name = p_group AND c.partition_id = ANY (v_parts);
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF p_partition IS NULL AND p_queue IS NULL THEN
        DELETE FROM group_activity a WHERE a.group_name = p_group;
    END IF;
    RETURN v_n + v_subs;
END
$$;
