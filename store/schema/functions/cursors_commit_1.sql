-- cursors_commit_1 stores a group's positions as a Kafka client commits them, or
-- as somebody moves them by hand.
--
-- Promise: each position is stored as given, also backwards, and a native lease
-- on it is void: an ack of it will find it lost. Kafka reads back what it gave
-- (committed). Where the log does not reach so far the group goes on at its end as it
-- is now, or what is written next would be passed over; and where the message below
-- the position is of a later epoch than the client read, so another one, where that
-- epoch ended: a failover lost what the client had read. One row per partition stored is
-- returned; partitions that do not exist, or whose queue is deleted, are left
-- out. Of a partition named twice the last counts. Where slot p_slot of the group
-- coordinator has another epoch than p_slot_epoch by now, −1 alone is returned and
-- nothing is stored; p_slot_epoch 0 asks for no epoch. Under a slot the owner's commits
-- count in the order it began them, p_slot_serial: one that arrives after a later one
-- changes nothing there, as if it had been stored before that one, and is answered so.
--
-- Locks: the slot, shared and in a statement of its own, so that whoever takes
-- it waits for this or is seen by it (place 5); cursors in ascending partition
-- (place 6). Indexes: group_slots_pkey, log_partitions_pkey, queues_pkey, log_txns_pkey,
-- cursors_pkey; for positions of earlier epochs log_segments_pkey.
CREATE FUNCTION cursors_commit_1(
    p_group       text,
    p_slot        integer,
    p_slot_epoch  bigint,
    p_slot_serial bigint,
    p_partition   bigint[],
    p_offset      bigint[],
    p_epoch       integer[],
    p_metadata    bytea[],
    p_kafka       boolean   -- a Kafka client commits; else a group is moved by hand
) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_epoch integer;
BEGIN
    IF p_slot_epoch <> 0 THEN
        PERFORM 1 FROM group_slots s WHERE s.slot = p_slot AND s.epoch = p_slot_epoch FOR SHARE;
        IF NOT FOUND THEN
            RETURN NEXT -1::bigint;
            RETURN;
        END IF;
    END IF;
    SELECT x.epoch INTO v_epoch FROM cluster x;
    RETURN QUERY
    WITH given AS (
        SELECT DISTINCT ON (u.partition_id) u.partition_id, w.at, NULLIF(u.next_offset, w.at) AS committed, u.epoch, u.metadata
          FROM unnest(p_partition, p_offset, p_epoch, p_metadata) WITH ORDINALITY u(partition_id, next_offset, epoch, metadata, i)
         CROSS JOIN LATERAL (SELECT x.queue_id FROM log_partitions x WHERE x.id = u.partition_id LIMIT 1) p
         CROSS JOIN LATERAL (SELECT x.deleted_at FROM queues x WHERE x.id = p.queue_id LIMIT 1) q
          LEFT JOIN LATERAL (SELECT x.end_offset + 1 AS log_end FROM log_txns x WHERE x.partition_id = u.partition_id
                              ORDER BY x.end_offset DESC LIMIT 1) t ON true
          LEFT JOIN LATERAL (SELECT epoch_end_1(u.partition_id, u.epoch) AS cut
                               FROM (SELECT x.base_offset, x.leader_epoch FROM log_segments x
                                      WHERE u.epoch > 0 AND u.epoch < v_epoch
                                        AND x.partition_id = u.partition_id AND x.end_offset >= GREATEST(LEAST(u.next_offset, t.log_end), 1) - 1
                                      ORDER BY x.end_offset LIMIT 1) g
                              WHERE g.leader_epoch > u.epoch AND g.base_offset < u.next_offset) e ON true
         CROSS JOIN LATERAL (SELECT LEAST(u.next_offset, COALESCE(t.log_end, 0), e.cut) AS at) w
         WHERE q.deleted_at IS NULL
         ORDER BY u.partition_id, u.i DESC
    ), stored AS (
        INSERT INTO cursors AS c (partition_id, group_name, next_offset, committed, leader_epoch, metadata, kafka, committed_at, slot_epoch, slot_serial)
        SELECT g.partition_id, p_group, g.at, g.committed, g.epoch, g.metadata, p_kafka, clock_timestamp(),
               NULLIF(p_slot_epoch, 0), CASE WHEN p_slot_epoch <> 0 THEN p_slot_serial END
          FROM given g
        ON CONFLICT (partition_id, group_name) DO UPDATE
           SET next_offset = EXCLUDED.next_offset, committed = EXCLUDED.committed, leader_epoch = EXCLUDED.leader_epoch, metadata = EXCLUDED.metadata,
               kafka = EXCLUDED.kafka, committed_at = EXCLUDED.committed_at,
               lease_id = NULL, lease_end = NULL, lease_until = NULL, not_before = NULL, acked = '{}',
               slot_epoch = COALESCE(EXCLUDED.slot_epoch, c.slot_epoch), slot_serial = COALESCE(EXCLUDED.slot_serial, c.slot_serial)
         WHERE ((c.slot_epoch, c.slot_serial) > (EXCLUDED.slot_epoch, EXCLUDED.slot_serial)) IS NOT TRUE
    )
    SELECT g.partition_id FROM given g;
END
$$;
