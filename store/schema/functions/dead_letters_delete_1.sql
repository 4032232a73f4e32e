-- dead_letters_delete_1 forgets dead letters, and the segments kept for them that
-- no other needs.
--
-- Promise: how many there were. A repeat of a call is answered with what its first
-- attempt did.
--
-- Locks: of call_begin_1; the letters in ascending id; then rows of dead_segments in
-- ascending (partition, offset), so that none goes that is just getting another letter;
-- then the row of calls.
-- Indexes: dead_letters_pkey, dead_letters_segment, dead_segments_pkey.
CREATE FUNCTION dead_letters_delete_1(p_call uuid, p_ids bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer jsonb := call_begin_1(p_call);
    v_ids    bigint[];
    v_n      integer := 0;
    s        record;
BEGIN
    IF v_answer IS NOT NULL THEN
        RETURN v_answer;
    END IF;
    v_ids := ARRAY(SELECT l.id FROM dead_letters l WHERE l.id = ANY (p_ids) ORDER BY l.id FOR UPDATE);
    FOR s IN SELECT DISTINCT l.partition_id, l.segment_end FROM dead_letters l
              WHERE l.id = ANY (v_ids) AND l.segment_end IS NOT NULL ORDER BY l.partition_id, l.segment_end
    LOOP
        PERFORM FROM dead_segments d WHERE d.partition_id = s.partition_id AND d.end_offset = s.segment_end FOR UPDATE;
        DELETE FROM dead_segments d
         WHERE d.partition_id = s.partition_id AND d.end_offset = s.segment_end
           AND NOT EXISTS (SELECT FROM dead_letters l WHERE l.partition_id = s.partition_id AND l.segment_end = s.segment_end
                              AND l.id <> ALL (v_ids));
    END LOOP;
    DELETE FROM dead_letters l WHERE l.id = ANY (v_ids);
    GET DIAGNOSTICS v_n = ROW_COUNT;
    PERFORM call_end_1(p_call, to_jsonb(v_n));
    RETURN v_n;
END
$$;
