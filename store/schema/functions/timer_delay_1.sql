-- timer_delay_1 puts off a timer whose message cannot be stored, and notes why.
-- Promise: false, and nothing, where it was rescheduled meanwhile (p_hi, p_lo name the scheduling) or is locked.
-- Locks: the timer's row (place 2). Index: timers_pkey.
CREATE FUNCTION timer_delay_1(p_queue text, p_key text, p_hi bigint, p_lo bigint, p_ms bigint, p_error text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE timers t SET due_at = clock_timestamp() + p_ms * interval '1 millisecond', attempts = t.attempts + 1, last_error = p_error
     WHERE t.queue = p_queue AND t.timer_key = p_key AND t.id_hi = p_hi AND t.id_lo = p_lo AND t.due_at <= clock_timestamp();
    RETURN FOUND;
END
$$;
