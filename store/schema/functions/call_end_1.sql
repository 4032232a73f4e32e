-- call_end_1 keeps the answer of a call that took effect, for its repeats.
--
-- Promise: call_begin_1 answers p_answer from now on, for the 900 s that
-- calls_purge_1 is told to keep. It belongs in the transaction of the call's
-- other writes, after call_begin_1 answered null.
--
-- Locks: none but its new row. Index: calls_pkey.
CREATE FUNCTION call_end_1(p_call uuid, p_answer jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO calls (id, answer) VALUES (p_call, p_answer);
END
$$;
