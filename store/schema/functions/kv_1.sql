-- kv_1 is a call of operations on keys that take effect together.
--
-- Promise: what kv_apply_1 answers for p_ops. Where an operation that was
-- required did not apply, nothing of the call is written. A repeat of a call is
-- answered with what its first attempt did. p_repeat says that an
-- attempt may be under way still: then a verdict that wrote nothing is kept too,
-- so that the late attempt does not do what was reported not done.
--
-- Locks: of call_begin_1, then the keys' rows (place 1), then the row of calls (a leaf).
-- A lost requirement ends a sub-block, so that the answer is no error; calls
-- without one have no sub-block.
CREATE FUNCTION kv_1(p_call uuid, p_repeat boolean, p_ops jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer jsonb := call_begin_1(p_call);
BEGIN
    IF v_answer IS NOT NULL THEN
        RETURN v_answer;
    END IF;
    IF NOT jsonb_path_exists(p_ops, '$[*] ? (@.required == true)') THEN
        v_answer := kv_apply_1(p_ops);
    ELSE
        BEGIN
            v_answer := kv_apply_1(p_ops);
            IF v_answer ->> 'lost' IS NOT NULL THEN
                RAISE EXCEPTION USING ERRCODE = 'QT001';
            END IF;
        EXCEPTION WHEN SQLSTATE 'QT001' THEN
            v_answer := v_answer || '{"wrote": false}';
        END;
    END IF;
    IF (v_answer ->> 'wrote')::boolean OR p_repeat THEN
        PERFORM call_end_1(p_call, v_answer);
    ELSIF current_setting('synchronous_standby_names') = '' THEN
        -- Nothing was written: the commit need not wait for the disk. (As in append_1.)
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    RETURN v_answer;
END
$$;
