-- kv_apply_1 applies operations on keys, each judged by what those before it left.
--
-- p_ops is an array of {"op", "ns", "key"} and, by op:
--   get                  –
--   put                  value (JSON text), expect, ttl
--   delete, check        expect
--   incr                 delta, low, high, ttl
-- expect: 0 the key must not be there, N it must have that version; without it
-- there is no condition. ttl is in seconds; without it the value never expires.
-- incr gives its ttl only to a key that is not there. required: see lost.
--
-- Promise: {"results": […], "lost": N, "wrote": true|false}, one result per operation, in order:
--   applied   the operation took effect (get: the key is there; check: the condition holds)
--   reason    else: exists, absent, version, limit (incr left low … high), type (incr met no number)
--   version, value, expires, updated   what is there afterwards: version 0 and nothing else where
--             nothing is; value is left out where a put has just set it; times in µs, null: never
-- lost is the first operation, from 0, that is required and did not apply; null:
-- none. What has expired by the database's clock is not there.
--
-- Locks: the keys' rows (place 1), ascending, keys that are only read shared. A
-- key that is not there is locked by a row of version 0, which is gone at the
-- end. Index: kv_pkey.
CREATE FUNCTION kv_apply_1(p_ops jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    c_digits CONSTANT numeric := 1e38;
    v_results jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(p_ops)]);
    v_lost    integer;
    v_wrote   boolean := false;
    k         record;   -- a key, and the places of its operations
    o         record;
    r         kv;
    v_row     boolean;  -- there is a row, ours now
    v_live    boolean;
    v_dirty   boolean;
    v_now     timestamptz;
    v_i       integer;
    v_reason  text;
    v_sum     numeric;
BEGIN
    FOR k IN SELECT e.o ->> 'ns' AS ns, e.o ->> 'key' AS key, array_agg(e.n::integer ORDER BY e.n) AS places,
                    bool_or(e.o ->> 'op' <> 'get') AS writes
               FROM jsonb_array_elements(p_ops) WITH ORDINALITY e(o, n)
              GROUP BY 1, 2 ORDER BY (e.o ->> 'ns') COLLATE "C", (e.o ->> 'key') COLLATE "C"
    LOOP
        IF k.writes THEN
            LOOP
                SELECT x.* INTO r FROM kv x WHERE x.ns = k.ns AND x.key = k.key FOR UPDATE;
                EXIT WHEN FOUND;
                INSERT INTO kv AS x (ns, key, value, version, expires_at, updated_at)
                VALUES (k.ns, k.key, '', 0, '-infinity', '-infinity')
                ON CONFLICT DO NOTHING RETURNING x.* INTO r;
                EXIT WHEN FOUND;  -- else somebody was quicker: once more
            END LOOP;
            v_row := true;
        ELSE
            SELECT x.* INTO r FROM kv x WHERE x.ns = k.ns AND x.key = k.key FOR SHARE;
            v_row := FOUND;
        END IF;
        v_now := clock_timestamp();
        v_live := v_row AND r.expires_at > v_now;
        v_dirty := false;

        FOREACH v_i IN ARRAY k.places LOOP
            SELECT x.* INTO o
              FROM jsonb_to_record(p_ops -> (v_i - 1)) AS x(op text, value text, expect bigint, ttl bigint,
                                                            delta numeric, low numeric, high numeric, required boolean);
            -- The condition, then what is special to an operation.
            v_reason := CASE
                WHEN o.expect = 0 AND v_live THEN 'exists'
                WHEN o.expect > 0 AND NOT v_live THEN 'absent'
                WHEN o.expect > 0 AND o.expect <> r.version THEN 'version'
                WHEN o.op IN ('get', 'delete') AND NOT v_live THEN 'absent'
            END;
            IF v_reason IS NULL AND o.op = 'incr' THEN
                IF NOT v_live THEN
                    v_sum := o.delta;
                ELSIF length(r.value) <= 80 AND r.value ~ '^-?(0|[1-9][0-9]*)([.][0-9]+)?$' THEN
                    v_sum := r.value::numeric + o.delta;
                ELSE
                    v_reason := 'type';
                END IF;
                IF v_reason IS NULL AND (v_sum < o.low OR v_sum > o.high OR abs(v_sum) >= c_digits) THEN
                    v_reason := 'limit';
                END IF;
            END IF;
            IF v_reason IS NULL THEN
                CASE o.op
                WHEN 'put' THEN
                    r.value := o.value;
                    r.expires_at := COALESCE(v_now + o.ttl * interval '1 second', 'infinity');
                WHEN 'incr' THEN
                    r.value := trim_scale(v_sum)::text;
                    IF NOT v_live THEN
                        r.expires_at := COALESCE(v_now + o.ttl * interval '1 second', 'infinity');
                    END IF;
                ELSE
                END CASE;
                IF o.op IN ('put', 'incr') THEN
                    -- Taken while the row is ours, so that it rises from holder to holder, and
                    -- above those of an incarnation that was lost and took the sequence with it
                    -- (see producer_id_new.sql). Below 2^53, for readers of JSON.
                    r.version := (SELECT (x.epoch - 1)::bigint << 22 FROM cluster x) + nextval('kv_versions');
                    r.updated_at := v_now;
                    v_live := true;
                    v_dirty := true;
                ELSIF o.op = 'delete' THEN
                    v_live := false;
                    v_dirty := true;
                END IF;
            ELSIF o.required AND (v_lost IS NULL OR v_i <= v_lost) THEN
                v_lost := v_i - 1;
            END IF;
            v_results[v_i] := jsonb_build_object('applied', v_reason IS NULL, 'reason', v_reason,
                'version', CASE WHEN v_live THEN r.version ELSE 0 END)
                || CASE WHEN v_live THEN jsonb_build_object(
                       'expires', CASE WHEN r.expires_at < 'infinity' THEN (extract(epoch FROM r.expires_at) * 1000000)::bigint END,
                       'updated', (extract(epoch FROM r.updated_at) * 1000000)::bigint)
                   ELSE '{}' END
                || CASE WHEN v_live AND NOT (o.op = 'put' AND v_reason IS NULL) THEN jsonb_build_object('value', r.value)
                   ELSE '{}' END;
        END LOOP;

        IF v_dirty AND v_live THEN
            UPDATE kv x SET value = r.value, version = r.version, expires_at = r.expires_at, updated_at = r.updated_at
             WHERE x.ns = k.ns AND x.key = k.key;
            v_wrote := true;
        ELSIF k.writes AND (v_dirty OR r.version = 0) THEN
            DELETE FROM kv x WHERE x.ns = k.ns AND x.key = k.key;
            v_wrote := v_wrote OR v_dirty;
        END IF;
    END LOOP;
    RETURN jsonb_build_object('results', to_jsonb(v_results), 'lost', v_lost, 'wrote', v_wrote);
END
$$;
