-- timers_1 is a call of operations on timers that take effect together: see
-- timers_apply_1. A repeat is answered with what the first attempt did.
-- Locks: of call_begin_1, then the timers' rows (place 2), then the row of calls (a leaf).
CREATE FUNCTION timers_1(p_call uuid, p_ops jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer jsonb := call_begin_1(p_call);
BEGIN
    IF v_answer IS NULL THEN
        v_answer := timers_apply_1(p_ops);
        PERFORM call_end_1(p_call, v_answer);
    END IF;
    RETURN v_answer;
END
$$;
