-- offsets_expire_1 deletes positions of a group that Kafka clients committed long ago.
--
-- Promise: how many, at most p_rows; −1, and nothing is deleted, where slot p_slot of
-- the group coordinator has another epoch than p_slot_epoch by now. Deleted are
-- those last written by a Kafka commit, p_age_ms ago or earlier by the database's
-- clock, and not leased. With p_keep NULL nobody is in the group, and none is
-- deleted where somebody was seen in it in the last p_seen_ms; else it has members,
-- and the positions in the queues p_keep, which they read, stay.
--
-- Locks: the slot, shared (place 5); cursors in ascending partition (place 6); the
-- group's activity (place 7). What was committed while this waited is judged anew.
-- Indexes: group_slots_pkey, group_activity_pkey, cursors_group, cursors_pkey, log_partitions_pkey, queues_pkey.
CREATE FUNCTION offsets_expire_1(
    p_group      text,
    p_slot       integer,
    p_slot_epoch bigint,
    p_age_ms     bigint,
    p_seen_ms    bigint,
    p_keep       text[],
    p_rows       integer
) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_now   timestamptz;
    v_parts bigint[];
    v_n     integer;
BEGIN
    PERFORM 1 FROM group_slots s WHERE s.slot = p_slot AND s.epoch = p_slot_epoch FOR SHARE;
    IF NOT FOUND THEN
        RETURN -1;
    END IF;
    v_now := clock_timestamp();
    IF p_keep IS NULL AND EXISTS (SELECT FROM group_activity a WHERE a.group_name = p_group
                                     AND a.seen_at > v_now - p_seen_ms * interval '1 millisecond') THEN
        RETURN 0;
    END IF;
    v_parts := ARRAY(SELECT c.partition_id FROM cursors c
                      WHERE c.group_name = p_group AND c.kafka
                        AND c.committed_at <= v_now - p_age_ms * interval '1 millisecond'
                        AND (c.lease_until IS NULL OR c.lease_until <= v_now)
                        AND (p_keep IS NULL OR NOT EXISTS (
                             SELECT FROM log_partitions p JOIN queues q ON q.id = p.queue_id
                              WHERE p.id = c.partition_id AND q.deleted_at IS NULL AND q.name = ANY (p_keep)))
                      ORDER BY c.partition_id LIMIT p_rows FOR UPDATE OF c);
    DELETE FROM cursors c WHERE c.group_name = p_group AND c.partition_id = ANY (v_parts);
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF p_keep IS NULL AND NOT EXISTS (SELECT FROM cursors c WHERE c.group_name = p_group) THEN
        DELETE FROM group_activity a WHERE a.group_name = p_group;
    END IF;
    RETURN v_n;
END
$$;
