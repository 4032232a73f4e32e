-- ack_apply_1 notes what became of messages of one partition for a group: the one
-- place where acknowledgments are judged, for acks and for transactions.
--
-- p_outcomes says it per offset: 0 completed, 1 failed, 2 given back, 3 dead. Of an
-- offset named twice, done (0, 3) goes before failed, and failed before given back. One
-- that the group was done with before is left as it is.
--
-- Promise, judged under the cursor's lock by the database's clock:
--   status 0: it is noted. The position moves to the first offset at or above it
--     that is not done; those done ahead of it are kept in acked. A failure
--     is counted, and beyond the queue's retry_limit the message is a dead letter, as
--     with outcome 3: its segment is kept beside and the offset is done; dead lists
--     such offsets. Anything failed or given back ends the lease, so that what is
--     left can be claimed: at once, or after a failure when retry_delay_ms have passed.
--   status 1: the lease named is not the live one any more, or an offset is below 0: its
--     id was looked for when the lease was over already; nothing is written.
--   status 2: the group has no position here; nothing is written.
--   status 3: more than p_acked_max offsets would be kept ahead of the position,
--     or as failing; nothing is written.
-- With p_lease null whatever lease is live, or none, is accepted. The position
-- never moves back. The lease ends too when all under it is done. An offset
-- that holds no record must be named too, or the position stops there.
--
-- Locks: the cursor (place 6), then rows of retries and of dead_segments. Call it
-- in ascending (partition, group). Indexes: cursors_pkey, retries_pkey, log_partitions_pkey,
-- queues_pkey, log_segments_pkey.
CREATE FUNCTION ack_apply_1(
    p_group     text,
    p_partition bigint,
    p_lease     uuid,
    p_offsets   bigint[],
    p_outcomes  smallint[],
    p_reasons   text[],      -- null, or one per offset
    p_acked_max integer,
    OUT status      smallint,
    OUT next_offset bigint,
    OUT lease_live  boolean,
    OUT wait_ms     bigint,   -- null: what is left can be claimed at once
    OUT dead        bigint[]
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    v_cursor cursors;
    v_now    timestamptz;
    v_done   bigint[];
    v_failed bigint[] := '{}';
    v_back   boolean := false;
    v_n      integer;
    v_queue  bigint;
    v_limit  integer;
    v_delay  bigint;
    v_failing integer;
    v_wait   timestamptz;
BEGIN
    lease_live := false;
    dead := '{}';
    SELECT c.* INTO v_cursor FROM cursors c
     WHERE c.partition_id = p_partition AND c.group_name = p_group FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := 2;
        RETURN;
    END IF;
    v_now := clock_timestamp();
    next_offset := v_cursor.next_offset;
    lease_live := v_cursor.lease_id IS NOT NULL AND v_cursor.lease_until > v_now;
    IF p_lease IS NOT NULL AND (NOT lease_live OR v_cursor.lease_id <> p_lease) OR 0 > ANY (p_offsets) THEN
        status := 1;
        RETURN;
    END IF;
    v_done := ARRAY(SELECT DISTINCT o FROM unnest(v_cursor.acked || ARRAY(
                        SELECT u.o FROM unnest(p_offsets, p_outcomes) u(o, what) WHERE u.what IN (0, 3))) o
                     WHERE o >= v_cursor.next_offset ORDER BY o);
    IF EXISTS (SELECT FROM unnest(p_outcomes) w WHERE w > 0) THEN
        SELECT q.id, q.retry_limit, q.retry_delay_ms INTO v_queue, v_limit, v_delay
          FROM log_partitions p
         CROSS JOIN LATERAL (SELECT x.id, x.retry_limit, x.retry_delay_ms FROM queues x WHERE x.id = p.queue_id LIMIT 1) q
         WHERE p.id = p_partition;
        v_failed := ARRAY(SELECT DISTINCT u.o FROM unnest(p_offsets, p_outcomes) u(o, what)
                           WHERE u.what = 1 AND u.o >= v_cursor.next_offset AND u.o <> ALL (v_done) ORDER BY u.o);
        dead := ARRAY(SELECT DISTINCT u.o FROM unnest(p_offsets, p_outcomes) u(o, what)
                       WHERE u.what = 3 AND u.o >= v_cursor.next_offset AND u.o <> ALL (v_cursor.acked))
             || ARRAY(SELECT f FROM unnest(v_failed) f
                       WHERE v_limit < 1 + COALESCE((SELECT r.failures FROM retries r WHERE r.partition_id = p_partition
                                                        AND r.group_name = p_group AND r.record_offset = f), 0));
        v_failed := ARRAY(SELECT f FROM unnest(v_failed) f WHERE f <> ALL (dead));
        v_done := ARRAY(SELECT DISTINCT o FROM unnest(v_done || dead) o ORDER BY o);
        v_back := v_failed <> '{}' OR EXISTS (SELECT FROM unnest(p_offsets, p_outcomes) u(o, what)
            WHERE u.what = 2 AND u.o >= v_cursor.next_offset AND u.o <> ALL (v_done));
        IF v_failed <> '{}' AND v_delay > 0 THEN
            wait_ms := v_delay;
            v_wait := v_now + v_delay * interval '1 millisecond';
        END IF;
    END IF;
    -- Ascending without repeats: the i-th is next + i − 1 exactly as long as none is missing.
    SELECT count(*) INTO v_n FROM unnest(v_done) WITH ORDINALITY d(o, i) WHERE d.o = v_cursor.next_offset + d.i - 1;
    IF GREATEST(cardinality(v_done) - v_n, v_cursor.failing + cardinality(v_failed)) > p_acked_max THEN
        status := 3;
        dead := '{}';
        wait_ms := NULL;
        RETURN;
    END IF;
    status := 0;
    next_offset := v_cursor.next_offset + v_n;
    lease_live := lease_live AND NOT v_back AND next_offset <= v_cursor.lease_end;

    IF dead <> '{}' THEN
        PERFORM dead_letters_add_1(v_queue, p_partition, p_group, ARRAY(SELECT d FROM unnest(dead) d ORDER BY d),
                                   p_offsets, p_outcomes, p_reasons);
    END IF;
    v_failing := v_cursor.failing;
    IF v_failed <> '{}' THEN
        INSERT INTO retries AS r (partition_id, group_name, record_offset, failures)
        SELECT p_partition, p_group, f, 1 FROM unnest(v_failed) f
        ON CONFLICT (partition_id, group_name, record_offset) DO UPDATE SET failures = r.failures + 1;
    END IF;
    IF v_failing > 0 OR v_failed <> '{}' THEN
        DELETE FROM retries r
         WHERE r.partition_id = p_partition AND r.group_name = p_group
           AND (r.record_offset < ack_apply_1.next_offset OR r.record_offset = ANY (v_done));
        SELECT count(*) INTO v_failing FROM retries r WHERE r.partition_id = p_partition AND r.group_name = p_group;
    END IF;
    UPDATE cursors c
       SET next_offset = ack_apply_1.next_offset, committed = NULL, kafka = false, committed_at = v_now, acked = v_done[v_n + 1 :],
           lease_id = CASE WHEN ack_apply_1.lease_live THEN c.lease_id END,
           lease_end = CASE WHEN ack_apply_1.lease_live THEN c.lease_end END,
           lease_until = CASE WHEN ack_apply_1.lease_live THEN c.lease_until END,
           not_before = COALESCE(v_wait, c.not_before), failing = v_failing
     WHERE c.partition_id = p_partition AND c.group_name = p_group;
END
$$;
