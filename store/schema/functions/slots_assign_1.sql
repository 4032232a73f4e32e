-- slots_assign_1 gives slots of the group coordinator to the brokers named: p_owner[i], a
-- process, gets slot p_slot[i]; NULL makes it nobody's.
--
-- Promise: only what is nobody's, is p_instance's, or belongs to a process without
-- a heartbeat for p_dead_ms changes hands, and with it its epoch rises. How many
-- did is returned. A commit under the old epoch has been stored before this
-- returns, or is refused.
--
-- Locks: the slots in ascending order (place 5), then the rows of their owners in
-- brokers (place 7), so that a heartbeat under way is judged as before or after.
-- Index: group_slots_pkey.
CREATE FUNCTION slots_assign_1(
    p_instance uuid,
    p_slot     integer[],
    p_owner    uuid[],
    p_dead_ms  bigint
) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_owners uuid[];
    v_live   uuid[];
    v_now    timestamptz;
    v_n      integer;
BEGIN
    PERFORM 1 FROM group_slots s WHERE s.slot = ANY (p_slot) ORDER BY s.slot FOR NO KEY UPDATE;
    v_owners := ARRAY(SELECT s.owner FROM group_slots s WHERE s.slot = ANY (p_slot));
    PERFORM 1 FROM brokers b WHERE b.instance = ANY (v_owners) ORDER BY b.id FOR SHARE;
    v_now := clock_timestamp();
    v_live := ARRAY(SELECT b.instance FROM brokers b
                     WHERE b.instance = ANY (v_owners)
                       AND abs(extract(epoch FROM v_now - b.heartbeat_at)) * 1000 < p_dead_ms);
    UPDATE group_slots s SET owner = u.owner, epoch = s.epoch + 1
      FROM unnest(p_slot, p_owner) u(slot, owner)
     WHERE s.slot = u.slot AND s.owner IS DISTINCT FROM u.owner
       AND (s.owner IS NULL OR s.owner = p_instance OR s.owner <> ALL (v_live));
    GET DIAGNOSTICS v_n = ROW_COUNT;
    RETURN v_n;
END
$$;
