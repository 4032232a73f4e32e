-- ack_1 acknowledges messages of some partitions in one call, which takes effect
-- once: a repeat with the same p_call is answered like the first.
--
-- Promise: one row per cursor (partition, group, lease), in the order given, with
-- the verdict of ack_apply_1. Each is judged for itself: what is refused in one
-- holds up no other. The offsets of all cursors stand in one array, each cursor's
-- in the slice from p_first on.
--
-- Locks: the call's advisory lock, then cursors, which must be in ascending
-- (partition, group) (place 6). Indexes: calls_pkey, and those of ack_apply_1.
CREATE FUNCTION ack_1(
    p_call       uuid,
    p_groups     text[],
    p_partitions bigint[],
    p_leases     uuid[],     -- an element null: whatever lease is live
    p_first      integer[],  -- of each cursor, from 1
    p_offsets    bigint[],
    p_outcomes   smallint[],
    p_reasons    text[],     -- null, or one per offset
    p_acked_max  integer
) RETURNS TABLE (
    status      smallint,
    next_offset bigint,
    lease_live  boolean,
    wait_ms     bigint,
    dead        bigint[]
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer jsonb := call_begin_1(p_call);
    v_one    jsonb;
    v_to     integer;
BEGIN
    IF v_answer IS NULL THEN
        v_answer := '[]';
        FOR i IN 1 .. cardinality(p_groups) LOOP
            v_to := COALESCE(p_first[i + 1] - 1, cardinality(p_offsets));
            SELECT to_jsonb(a) INTO v_one
              FROM ack_apply_1(p_groups[i], p_partitions[i], p_leases[i], p_offsets[p_first[i] : v_to],
                               p_outcomes[p_first[i] : v_to], p_reasons[p_first[i] : v_to], p_acked_max) a;
            v_answer := v_answer || jsonb_build_array(v_one);
        END LOOP;
        PERFORM call_end_1(p_call, v_answer);
    END IF;
    RETURN QUERY
    SELECT (e.v ->> 'status')::smallint, (e.v ->> 'next_offset')::bigint, (e.v ->> 'lease_live')::boolean,
           (e.v ->> 'wait_ms')::bigint,
           ARRAY(SELECT d.v::bigint FROM jsonb_array_elements_text(e.v -> 'dead') d(v))
      FROM jsonb_array_elements(v_answer) WITH ORDINALITY e(v, i)
     ORDER BY e.i;
END
$$;
