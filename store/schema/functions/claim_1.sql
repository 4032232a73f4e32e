-- claim_1 gives a native consumer of a group the next messages of some of the
-- candidate partitions: those that have something above the group's position and
-- no live lease, in the order given, at most p_most of them under one lease.
--
-- Promise: one row per candidate that was looked at and not given, whose status
-- says why:
--   1 nothing is there;
--   2 not before "until": a lease is live, a failure's delay or the queue's runs;
--   3 another claim or ack holds it at this moment;
--   4 it does not exist (any more);
--   5 the group has no position here and never subscribed to the queue.
-- And of each partition given one row per segment that covers its batch, with
-- status 0, the position, the last offset given, the lease's end and what was
-- completed ahead of the position. A candidate without any row was not looked
-- at. All batches together are bounded by p_batch offsets and p_bytes bytes of
-- segments; the first segment comes in any case.
--
-- A repeat (p_lease was given before) is answered with what is still under that
-- lease, once its first attempt has ended; so a lost answer leases nothing that
-- nobody knows of.
--
-- A group without a position in a partition starts with the first segment stored
-- after it subscribed to the queue, which is the log start for most.
--
-- Locks: the lease's advisory lock, then cursors (place 6) in the order of the
-- candidates, which must be ascending, skipped when locked; then a row in leases.
-- Indexes: log_partitions_pkey, queues_pkey, subscriptions_pkey, log_txns_pkey,
-- cursors_pkey, log_segments_pkey, leases_pkey.
CREATE FUNCTION claim_1(
    p_group      text,
    p_partitions bigint[],   -- ascending
    p_most       integer,
    p_batch      integer,
    p_bytes      bigint,
    p_lease      uuid,
    p_lease_ms   bigint      -- null: as each queue says
) RETURNS TABLE (
    partition_id  bigint,
    status        smallint,
    until_ms      bigint,    -- from now; null with status 1 and above, but 2
    next_offset   bigint,
    lease_end     bigint,
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
    v_given  bigint[] := '{}';
    v_until  timestamptz;
    v_last   bigint;   -- end of the last segment taken
    v_wait   timestamptz;
    v_ms     bigint;
    v_most_ms bigint := 0;
    v_latest timestamptz;
    v_offsets integer := p_batch;
    v_bytes  bigint := p_bytes;
    v_first  boolean := true;
    v_cursor cursors;
    k        record;
    s        record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_lease::text, 0));
    SELECT l.partitions INTO v_given FROM leases l WHERE l.id = p_lease;
    IF NOT FOUND THEN
        v_given := '{}';
        FOR k IN
            SELECT u.id, p.start_offset, q.id IS NOT NULL AND q.deleted_at IS NULL AS there, q.lease_seconds, q.delay_seconds,
                   c.next_offset AS at, GREATEST(c.lease_until, c.not_before) AS held, b.created_at AS since, t.log_end
              FROM unnest(p_partitions) u(id)
              LEFT JOIN LATERAL (SELECT x.queue_id, x.start_offset FROM log_partitions x WHERE x.id = u.id LIMIT 1) p ON true
              LEFT JOIN LATERAL (SELECT x.id, x.deleted_at, x.lease_seconds, x.delay_seconds FROM queues x
                                  WHERE x.id = p.queue_id LIMIT 1) q ON true
              LEFT JOIN LATERAL (SELECT x.next_offset, x.lease_until, x.not_before FROM cursors x
                                  WHERE x.partition_id = u.id AND x.group_name = p_group LIMIT 1) c ON true
              LEFT JOIN LATERAL (SELECT x.created_at FROM subscriptions x
                                  WHERE x.queue_id = p.queue_id AND x.group_name = p_group LIMIT 1) b ON true
              LEFT JOIN LATERAL (SELECT x.end_offset + 1 AS log_end FROM log_txns x WHERE x.partition_id = u.id
                                  ORDER BY x.end_offset DESC LIMIT 1) t ON true
        LOOP
            partition_id := k.id;
            until_ms := NULL;
            -- A look without locks, to pass by what has nothing.
            status := CASE WHEN NOT k.there THEN 4
                           WHEN k.at IS NULL AND k.since IS NULL THEN 5
                           WHEN k.held > clock_timestamp() THEN 2 END;
            IF status IS NULL THEN
                next_offset := GREATEST(k.start_offset, CASE
                    WHEN k.at IS NOT NULL THEN k.at
                    WHEN k.since = '-infinity' THEN k.start_offset
                    ELSE first_after_1(k.id, k.since) END);
                IF k.log_end IS NULL OR next_offset >= k.log_end THEN
                    status := 1;
                END IF;
            END IF;
            IF status IS NOT NULL THEN
                IF status = 2 THEN
                    until_ms := ceil(EXTRACT(EPOCH FROM k.held - clock_timestamp()) * 1000);
                END IF;
                next_offset := NULL;
                RETURN NEXT;
                CONTINUE;
            END IF;

            -- Something is there: take the cursor, and judge again what it says.
            IF k.at IS NULL THEN
                INSERT INTO cursors (partition_id, group_name, next_offset, kafka, committed_at)
                VALUES (k.id, p_group, next_offset, false, clock_timestamp())
                ON CONFLICT DO NOTHING;
            END IF;
            SELECT c.* INTO v_cursor FROM cursors c
             WHERE c.partition_id = k.id AND c.group_name = p_group
               FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                status := 3;
                next_offset := NULL;
                RETURN NEXT;
                CONTINUE;
            END IF;
            next_offset := GREATEST(v_cursor.next_offset, k.start_offset);
            -- What compaction emptied is passed by.
            SELECT x.base_offset INTO v_last FROM log_segments x
             WHERE x.partition_id = k.id AND x.end_offset >= next_offset
             ORDER BY x.end_offset LIMIT 1;
            next_offset := GREATEST(next_offset, v_last);
            v_last := NULL;
            v_wait := GREATEST(v_cursor.lease_until, v_cursor.not_before);
            IF v_wait IS NULL OR v_wait <= clock_timestamp() THEN
                v_wait := NULL;
                FOR s IN SELECT x.end_offset, x.base_offset, x.size, x.created_at FROM log_segments x
                          WHERE x.partition_id = k.id AND x.end_offset >= next_offset
                          ORDER BY x.end_offset
                LOOP
                    IF k.delay_seconds > 0 AND s.created_at + make_interval(secs => k.delay_seconds) > clock_timestamp() THEN
                        v_wait := s.created_at + make_interval(secs => k.delay_seconds);
                        EXIT;
                    END IF;
                    EXIT WHEN NOT v_first AND s.size > v_bytes
                           OR v_last IS NOT NULL AND s.base_offset >= next_offset + v_offsets;
                    v_bytes := v_bytes - s.size;
                    v_first := false;
                    v_last := s.end_offset;
                    EXIT WHEN v_last >= next_offset + v_offsets - 1;
                END LOOP;
                IF v_last IS NULL AND v_wait IS NULL AND NOT v_first AND s.size > v_bytes THEN
                    EXIT;  -- no room is left for it; it was not looked at
                END IF;
            END IF;
            IF v_last IS NULL THEN
                status := CASE WHEN v_wait IS NULL THEN 1 ELSE 2 END;
                until_ms := ceil(EXTRACT(EPOCH FROM v_wait - clock_timestamp()) * 1000);
                next_offset := NULL;
                RETURN NEXT;
                CONTINUE;
            END IF;

            lease_end := LEAST(v_last, next_offset + v_offsets - 1);
            v_offsets := v_offsets - (lease_end - next_offset + 1)::integer;
            v_ms := COALESCE(p_lease_ms, k.lease_seconds * 1000::bigint);
            v_until := clock_timestamp() + v_ms * interval '1 millisecond';
            v_most_ms := GREATEST(v_most_ms, v_ms);
            v_latest := GREATEST(v_latest, v_until);
            UPDATE cursors c
               SET next_offset = claim_1.next_offset, committed = NULL, kafka = false,
                   acked = ARRAY(SELECT a FROM unnest(v_cursor.acked) a WHERE a >= claim_1.next_offset ORDER BY a),
                   lease_id = p_lease, lease_end = claim_1.lease_end, lease_until = v_until, not_before = NULL
             WHERE c.partition_id = k.id AND c.group_name = p_group;
            v_given := v_given || k.id;
            EXIT WHEN cardinality(v_given) = p_most OR v_offsets <= 0 OR v_bytes <= 0;
        END LOOP;
        IF v_given = '{}' THEN
            RETURN;
        END IF;
        INSERT INTO leases (id, group_name, partitions, lease_ms, until)
        VALUES (p_lease, p_group, v_given, v_most_ms, v_latest);
    END IF;
    RETURN QUERY
    SELECT c.partition_id, 0::smallint, ceil(EXTRACT(EPOCH FROM c.lease_until - clock_timestamp()) * 1000)::bigint,
           c.next_offset, c.lease_end, c.acked,
           x.end_offset, x.base_offset, x.created_at, x.max_timestamp, x.leader_epoch, x.records, x.size, x.header, x.data
      FROM unnest(v_given) u(id)
     CROSS JOIN LATERAL (SELECT y.* FROM cursors y WHERE y.partition_id = u.id AND y.group_name = p_group LIMIT 1) c
     CROSS JOIN LATERAL (SELECT y.end_offset FROM log_segments y
                          WHERE y.partition_id = u.id AND y.end_offset >= c.lease_end ORDER BY y.end_offset LIMIT 1) z
     CROSS JOIN LATERAL (SELECT y.* FROM log_segments y WHERE y.partition_id = u.id
                            AND y.end_offset >= c.next_offset AND y.end_offset <= z.end_offset OFFSET 0) x
     WHERE c.lease_id = p_lease
     ORDER BY u.id, x.end_offset;
END
$$;
