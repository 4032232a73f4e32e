-- cursors_delete_1 deletes a step of a group's positions, ascending by partition: up to
-- p_rows of those above partition p_after that lie in the partitions p_partition; where
-- that is null, in queue p_queue; where that is null too, of all. The last step of a
-- group takes its subscriptions there along, if p_subscriptions, and that of a whole
-- group what is known of its activity.
--
-- Promise: how many positions and subscriptions went, and the partition to go on
-- after, null after the last step. Else why nothing was deleted: "leased" where a
-- member holds a lease on a position of the step, and, at the first one (p_after 0),
-- on any that is to go; "fenced" where slot p_slot of the group coordinator has
-- another epoch than p_slot_epoch by now; 0 asks for no epoch. Under a slot a position
-- stays that was committed by what its owner began later (p_slot_serial). A repeat of a
-- call is answered with what its first attempt did.
--
-- Locks: of call_begin_1; the slot, shared (place 5); the group's subscriptions in ascending queue,
-- its cursors in ascending partition (place 6), its activity and the row of calls (place 7).
-- Indexes: group_slots_pkey, group_activity_pkey, cursors_group, cursors_pkey, subscriptions_group, log_partitions_pkey.
CREATE FUNCTION cursors_delete_1(
    p_call          uuid,
    p_group         text,
    p_slot          integer,
    p_slot_epoch    bigint,
    p_slot_serial   bigint,
    p_queue         bigint,
    p_partition     bigint[],
    p_subscriptions boolean,
    p_after         bigint,
    p_rows          integer
) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer jsonb := call_begin_1(p_call);
    v_queues bigint[] := '{}';
    v_parts  bigint[];
    v_n      integer;
    v_subs   integer := 0;
BEGIN
    IF v_answer IS NOT NULL THEN
        RETURN v_answer;
    END IF;
    <<step>>
    BEGIN
        IF p_slot_epoch <> 0 THEN
            PERFORM 1 FROM group_slots s WHERE s.slot = p_slot AND s.epoch = p_slot_epoch FOR SHARE;
            IF NOT FOUND THEN
                v_answer := '{"refused": "fenced"}';
                EXIT step;
            END IF;
        END IF;
        IF p_partition IS NULL AND p_after = 0 AND EXISTS (
            SELECT FROM cursors c
             WHERE c.group_name = p_group AND c.lease_until > clock_timestamp()
               AND (p_queue IS NULL OR EXISTS (SELECT FROM log_partitions p WHERE p.id = c.partition_id AND p.queue_id = p_queue)))
        THEN
            v_answer := '{"refused": "leased"}';
            EXIT step;
        END IF;
        IF p_partition IS NULL AND p_subscriptions THEN
            v_queues := ARRAY(SELECT s.queue_id FROM subscriptions s
                               WHERE s.group_name = p_group AND (p_queue IS NULL OR s.queue_id = p_queue)
                               ORDER BY s.queue_id FOR UPDATE);
        END IF;
        v_parts := ARRAY(SELECT c.partition_id FROM cursors c
                          WHERE c.group_name = p_group AND c.partition_id > p_after
                            AND (p_slot_epoch = 0 OR ((c.slot_epoch, c.slot_serial) > (p_slot_epoch, p_slot_serial)) IS NOT TRUE)
                            AND CASE WHEN p_partition IS NOT NULL THEN c.partition_id = ANY (p_partition)
                                     ELSE p_queue IS NULL
                                       OR EXISTS (SELECT FROM log_partitions p WHERE p.id = c.partition_id AND p.queue_id = p_queue) END
                          ORDER BY c.partition_id LIMIT p_rows FOR UPDATE);
        IF EXISTS (SELECT FROM cursors c WHERE c.group_name = p_group AND c.partition_id = ANY (v_parts)
                      AND c.lease_until > clock_timestamp()) THEN
            v_answer := '{"refused": "leased"}';
            EXIT step;
        END IF;
        DELETE FROM retries r WHERE r.group_name = p_group AND r.partition_id = ANY (v_parts);
        DELETE FROM cursors c WHERE c.group_name = p_group AND c.partition_id = ANY (v_parts);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        IF cardinality(v_parts) < p_rows AND p_partition IS NULL THEN
            DELETE FROM subscriptions s WHERE s.group_name = p_group AND s.queue_id = ANY (v_queues);
            GET DIAGNOSTICS v_subs = ROW_COUNT;
            IF p_queue IS NULL THEN
                DELETE FROM group_activity a WHERE a.group_name = p_group;
            END IF;
        END IF;
        v_answer := jsonb_build_object('deleted', v_n + v_subs,
            'after', CASE WHEN cardinality(v_parts) = p_rows THEN v_parts[p_rows] END);
    END;
    PERFORM call_end_1(p_call, v_answer);
    RETURN v_answer;
END
$$;
