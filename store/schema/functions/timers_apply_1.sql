-- timers_apply_1 schedules and cancels timers.
--
-- p_ops is an array of {"op", "queue", "key"}, and for op schedule also
-- "partition" (or null), "txn" and "payload" (base64), "hi" and "lo" (the id of
-- the message to be) and "delay" (ms from now by the database's clock; negative: at once).
-- A timer that is there is replaced, attempts and all. cancel deletes one.
--
-- Promise: one result per operation, in order: {"status", "deliver"}, the time
-- in µs; status is scheduled, rescheduled (there was one), cancelled or absent
-- (there was none, perhaps because it fired).
--
-- Locks: the timers' rows (place 2), ascending by queue and key; waits for one
-- that is being fired. Index: timers_pkey.
CREATE FUNCTION timers_apply_1(p_ops jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_results jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(p_ops)]);
    o        record;
    v_there  boolean;
    v_now    timestamptz;
    v_at     timestamptz;
BEGIN
    FOR o IN SELECT e.n::integer AS n, x.*
               FROM jsonb_array_elements(p_ops) WITH ORDINALITY e(o, n)
              CROSS JOIN LATERAL jsonb_to_record(e.o) AS x(op text, queue text, key text, partition text, txn text,
                                                           payload text, hi bigint, lo bigint, delay bigint)
              ORDER BY x.queue COLLATE "C", x.key COLLATE "C", e.n
    LOOP
        IF o.op = 'cancel' THEN
            DELETE FROM timers t WHERE t.queue = o.queue AND t.timer_key = o.key RETURNING t.deliver_at INTO v_at;
            v_results[o.n] := jsonb_build_object('status', CASE WHEN FOUND THEN 'cancelled' ELSE 'absent' END,
                'deliver', (extract(epoch FROM v_at) * 1000000)::bigint);
            CONTINUE;
        END IF;
        PERFORM FROM timers t WHERE t.queue = o.queue AND t.timer_key = o.key FOR UPDATE;
        v_there := FOUND;
        v_now := clock_timestamp();
        v_at := v_now + o.delay * interval '1 millisecond';
        INSERT INTO timers AS t (queue, timer_key, partition, txn, payload, id_hi, id_lo, deliver_at, due_at)
        VALUES (o.queue, o.key, o.partition, decode(o.txn, 'base64'), decode(o.payload, 'base64'), o.hi, o.lo,
                v_at, GREATEST(v_at, v_now))
        ON CONFLICT (queue, timer_key) DO UPDATE
           SET partition = excluded.partition, txn = excluded.txn, payload = excluded.payload,
               id_hi = excluded.id_hi, id_lo = excluded.id_lo, deliver_at = excluded.deliver_at,
               due_at = excluded.due_at, attempts = 0, last_error = NULL;
        v_results[o.n] := jsonb_build_object('status', CASE WHEN v_there THEN 'rescheduled' ELSE 'scheduled' END,
            'deliver', (extract(epoch FROM v_at) * 1000000)::bigint);
    END LOOP;
    RETURN to_jsonb(v_results);
END
$$;
