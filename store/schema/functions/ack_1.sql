-- ack_1 notes that a group completed messages of a partition, or gives them back.
--
-- Promise, judged under the cursor's lock by the database's clock:
--   status 0: the offsets are completed. The position moves to the first offset
--     at or above it that is not completed; those ahead of it are kept in acked.
--   status 1: the lease named is not the live one any more; nothing is written.
--   status 2: the group has no position here; nothing is written.
--   status 3: more than p_acked_max offsets would be kept ahead of the position;
--     nothing is written.
-- With p_lease NULL whatever lease is live, or none, is accepted. The position
-- never moves back. The lease ends when all under it is completed, and with
-- p_retry: then what is left can be claimed at once.
-- An offset that holds no record must be named too, or the position stops there.
--
-- Locks: the cursor (place 6). Index: cursors_pkey.
CREATE FUNCTION ack_1(
    p_group     text,
    p_partition bigint,
    p_lease     uuid,
    p_offsets   bigint[],
    p_retry     boolean,
    p_acked_max integer,
    OUT status      smallint,
    OUT next_offset bigint,
    OUT lease_live  boolean
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    v_cursor cursors;
    v_now    timestamptz;
    v_done   bigint[];
    v_n      integer;
BEGIN
    lease_live := false;
    SELECT c.* INTO v_cursor FROM cursors c
     WHERE c.partition_id = p_partition AND c.group_name = p_group FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        status := 2;
        RETURN;
    END IF;
    v_now := clock_timestamp();
    next_offset := v_cursor.next_offset;
    lease_live := v_cursor.lease_until IS NOT NULL AND v_cursor.lease_until > v_now;
    IF p_lease IS NOT NULL AND (NOT lease_live OR v_cursor.lease_id <> p_lease) THEN
        status := 1;
        RETURN;
    END IF;
    v_done := ARRAY(SELECT DISTINCT o FROM unnest(v_cursor.acked || p_offsets) o
                     WHERE o >= v_cursor.next_offset ORDER BY o);
    -- Ascending without repeats: the i-th is next + i − 1 exactly as long as none is missing.
    SELECT count(*) INTO v_n FROM unnest(v_done) WITH ORDINALITY d(o, i) WHERE d.o = v_cursor.next_offset + d.i - 1;
    v_done := v_done[v_n + 1 :];
    IF cardinality(v_done) > p_acked_max THEN
        status := 3;
        RETURN;
    END IF;
    status := 0;
    next_offset := v_cursor.next_offset + v_n;
    lease_live := lease_live AND NOT p_retry AND ack_1.next_offset <= v_cursor.lease_end;
    UPDATE cursors c
       SET next_offset = ack_1.next_offset, kafka = false, committed_at = v_now, acked = v_done,
           lease_id = CASE WHEN ack_1.lease_live THEN c.lease_id END,
           lease_end = CASE WHEN ack_1.lease_live THEN c.lease_end END,
           lease_until = CASE WHEN ack_1.lease_live THEN c.lease_until END
     WHERE c.partition_id = p_partition AND c.group_name = p_group;
END
$$;
