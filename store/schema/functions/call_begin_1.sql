-- call_begin_1 begins a call that must take effect once, however often it is sent.
--
-- Promise: the answer of the attempt that took effect, or null: then this one is
-- the first and no other is under way, and it ends with call_end_1 in the same
-- transaction. A repeat waits here until an attempt under way has ended.
--
-- Use it as the first statement of a VOLATILE function, so that what follows
-- sees all that an earlier attempt committed.
--
-- Locks: an advisory one that stands for the call (before all others, held to the end of the
-- transaction); only repeats of one call meet on it. Index: calls_pkey.
CREATE FUNCTION call_begin_1(p_call uuid) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_call::text, 0));
    -- A statement of its own: its snapshot is taken after the wait.
    RETURN (SELECT c.answer FROM calls c WHERE c.id = p_call);
END
$$;
