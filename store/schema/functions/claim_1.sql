-- claim_1 gives a native consumer of a group the next messages of one partition:
-- the first of the candidates that has something above the group's position and
-- no live lease.
--
-- Promise: no row when there is none. Else one row per segment that covers the
-- batch, each with the partition, the position, the last offset given and what
-- was completed ahead of the position. The batch is bounded by p_batch offsets and
-- p_bytes bytes of segments, the first segment in any case. The offsets given are
-- under lease p_lease until p_lease_ms from now, by the database's clock; with
-- p_auto_ack they count as completed at once and there is no lease.
--
-- A group without a position in a partition starts at its log start, or, when it
-- asked for new messages only (p_from_end, remembered per queue), at the first
-- segment stored after it first asked; in a partition born later that is the start.
--
-- Locks: subscriptions; then the one cursor (place 6), skipped when locked.
-- Indexes: log_partitions_pkey, queues_pkey, log_txns_pkey, cursors_pkey, log_segments_pkey.
CREATE FUNCTION claim_1(
    p_group      text,
    p_partitions bigint[],   -- in order of preference
    p_batch      integer,
    p_bytes      bigint,
    p_lease      uuid,
    p_lease_ms   bigint,
    p_auto_ack   boolean,
    p_from_end   boolean
) RETURNS TABLE (
    partition_id  bigint,
    next_offset   bigint,
    lease_end     bigint,
    lease_until   timestamptz,
    acked         bigint[],
    end_offset    bigint,
    base_offset   bigint,
    created_at    timestamptz,
    max_timestamp bigint,
    leader_epoch  integer,
    records       integer,
    size          integer,
    header        bytea,
    data          bytea
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    v_queue  bigint;
    v_start  bigint;
    v_end    bigint;   -- the partition's next offset
    v_known  boolean;  -- the group has a position here
    v_since  timestamptz;
    v_bytes  bigint;
    v_last   bigint;   -- end of the last segment taken
    v_cursor cursors;
    s        record;
BEGIN
    FOREACH partition_id IN ARRAY p_partitions LOOP
        -- A look without locks, to pass by what has nothing.
        SELECT p.queue_id, p.start_offset INTO v_queue, v_start
          FROM log_partitions p
         CROSS JOIN LATERAL (SELECT x.deleted_at FROM queues x WHERE x.id = p.queue_id LIMIT 1) q
         WHERE p.id = claim_1.partition_id AND q.deleted_at IS NULL;
        CONTINUE WHEN NOT FOUND;
        SELECT c.* INTO v_cursor FROM cursors c
         WHERE c.partition_id = claim_1.partition_id AND c.group_name = p_group;
        v_known := FOUND;
        IF NOT v_known THEN
            SELECT x.created_at INTO v_since FROM subscriptions x
             WHERE x.queue_id = v_queue AND x.group_name = p_group;
            IF NOT FOUND AND p_from_end THEN
                INSERT INTO subscriptions (queue_id, group_name) VALUES (v_queue, p_group) ON CONFLICT DO NOTHING;
                SELECT x.created_at INTO v_since FROM subscriptions x
                 WHERE x.queue_id = v_queue AND x.group_name = p_group;
            END IF;
            v_cursor.next_offset := CASE WHEN v_since IS NULL THEN v_start
                                         ELSE first_after_1(claim_1.partition_id, v_since) END;
        ELSE
            CONTINUE WHEN v_cursor.lease_until > clock_timestamp();
        END IF;
        SELECT t.end_offset + 1 INTO v_end FROM log_txns t WHERE t.partition_id = claim_1.partition_id
         ORDER BY t.end_offset DESC LIMIT 1;
        CONTINUE WHEN NOT FOUND OR GREATEST(v_cursor.next_offset, v_start) >= v_end;

        -- Something is there: take the cursor, and judge again what it says.
        IF NOT v_known THEN
            INSERT INTO cursors (partition_id, group_name, next_offset, kafka, committed_at)
            VALUES (claim_1.partition_id, p_group, v_cursor.next_offset, false, clock_timestamp())
            ON CONFLICT DO NOTHING;
        END IF;
        SELECT c.* INTO v_cursor FROM cursors c
         WHERE c.partition_id = claim_1.partition_id AND c.group_name = p_group
           FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR v_cursor.lease_until > clock_timestamp();
        next_offset := GREATEST(v_cursor.next_offset, v_start);
        -- What compaction emptied is passed by.
        SELECT x.base_offset INTO v_last FROM log_segments x
         WHERE x.partition_id = claim_1.partition_id AND x.end_offset >= claim_1.next_offset
         ORDER BY x.end_offset LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        next_offset := GREATEST(claim_1.next_offset, v_last);
        acked := ARRAY(SELECT a FROM unnest(v_cursor.acked) a WHERE a >= claim_1.next_offset ORDER BY a);

        v_bytes := 0; v_last := NULL;
        FOR s IN SELECT x.end_offset, x.base_offset, x.size FROM log_segments x
                  WHERE x.partition_id = claim_1.partition_id AND x.end_offset >= claim_1.next_offset
                  ORDER BY x.end_offset
        LOOP
            v_bytes := v_bytes + s.size;
            EXIT WHEN v_last IS NOT NULL AND (v_bytes > p_bytes OR s.base_offset >= claim_1.next_offset + p_batch);
            v_last := s.end_offset;
            EXIT WHEN v_last >= claim_1.next_offset + p_batch - 1;
        END LOOP;
        CONTINUE WHEN v_last IS NULL;
        lease_end := LEAST(v_last, claim_1.next_offset + p_batch - 1);

        IF p_auto_ack THEN
            UPDATE cursors c
               SET next_offset = claim_1.lease_end + 1, kafka = false, committed_at = clock_timestamp(),
                   lease_id = NULL, lease_end = NULL, lease_until = NULL,
                   acked = ARRAY(SELECT a FROM unnest(claim_1.acked) a WHERE a > claim_1.lease_end ORDER BY a)
             WHERE c.partition_id = claim_1.partition_id AND c.group_name = p_group;
        ELSE
            lease_until := clock_timestamp() + p_lease_ms * interval '1 millisecond';
            UPDATE cursors c
               SET next_offset = claim_1.next_offset, kafka = false, acked = claim_1.acked,
                   lease_id = p_lease, lease_end = claim_1.lease_end, lease_until = claim_1.lease_until
             WHERE c.partition_id = claim_1.partition_id AND c.group_name = p_group;
        END IF;
        RETURN QUERY
        SELECT claim_1.partition_id, claim_1.next_offset, claim_1.lease_end, claim_1.lease_until, claim_1.acked,
               x.end_offset, x.base_offset, x.created_at, x.max_timestamp, x.leader_epoch, x.records, x.size,
               x.header, x.data
          FROM log_segments x
         WHERE x.partition_id = claim_1.partition_id AND x.end_offset >= claim_1.next_offset AND x.end_offset <= v_last
         ORDER BY x.end_offset;
        RETURN;
    END LOOP;
END
$$;
