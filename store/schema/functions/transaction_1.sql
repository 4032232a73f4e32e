-- transaction_1 does pushes, acks, operations on keys and on timers together, or none of it.
--
-- p_kv, p_timers: as kv_apply_1 and timers_apply_1 take them; null: none. p_acks
-- is an array of {"group", "partition", "lease", "offsets", "outcomes", "reasons"}, ascending by
-- (partition, group), each as ack_apply_1 takes it. p_new is an array of {"segment",
-- "queue", "name"}: the segment (from 1; its p_partition is null) goes to a partition that
-- is to be made, and its queue where there is none. The rest are segments as append_1
-- takes them, ascending by partition, those to be made last.
--
-- Promise: an object with a status:
--   committed  segments (what append_1 answers of each, times in µs, and its id base), kv, timers, and "acks"
--   duplicate  dups: per id that is stored already its segment, index (both from 1),
--              offset and message id. It goes before what follows.
--   ack        ack (from 0) was refused, with that verdict of ack_apply_1
--   kv         a required operation did not apply: kv is the answer of kv_apply_1
--   window, gone, stale   a segment was made under another window, for a queue that is deleted, or for a partition
--              that exists by now or cannot be made: the caller looks again
-- All but committed have written nothing. A repeat of a call is answered with what the
-- first attempt did; p_repeat as in kv_1.
--
-- Locks: of call_begin_1, then keys (place 1), timers (2), the rows of queues that grow, by name (3),
-- partitions (4), cursors and what goes with them (6), and cluster (a leaf).
-- What is refused ends a sub-block, so that it is no error; append_1, where most writes go, has none.
CREATE FUNCTION transaction_1(
    p_call            uuid,
    p_repeat          boolean,
    p_kv              jsonb,
    p_timers          jsonb,
    p_acks            jsonb,
    p_acked_max       integer,
    p_new             jsonb,
    p_epoch           integer,
    p_partition       bigint[],
    p_known           bigint[],
    p_id_hi           bigint[],
    p_id_lo           bigint[],
    p_window          integer[],
    p_source          text[],
    p_verified        bigint[],
    p_header          bytea[],
    p_data            bytea,
    p_parts           integer[],
    p_hashed          integer[],
    p_withheld        integer[],
    p_repeats         boolean[],
    p_hashes          uuid[],
    p_ttls            bigint[],
    p_withheld_hashes uuid[],
    p_part_bytes      integer[],
    p_part_size       integer[],
    p_part_batches    integer[],
    p_part_span       integer[],
    p_part_records    integer[],
    p_part_max_ts     bigint[],
    p_part_pid        bigint[],
    p_part_epoch      integer[],
    p_part_seq        integer[],
    p_part_seqs       integer[],
    p_part_answer     bigint[],
    p_uid_segment     integer[],
    p_uid_index       integer[],
    p_uid_hi          bigint[],
    p_uid_lo          bigint[],
    p_span_segment    integer[],
    p_span_from       bigint[],
    p_span_to         bigint[],
    p_span_hits       integer[],
    p_span_ids        integer[],
    p_as_of           bigint
) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_answer  jsonb := call_begin_1(p_call);
    v_part    bigint[] := p_partition;
    v_kv      jsonb;
    v_timers  jsonb;
    v_segments jsonb := '[]';
    v_dups    jsonb := '[]';
    v_acks    jsonb := '[]';
    v_status  text;     -- why not
    v_queue   queues;
    v_grown   bigint[] := '{}';
    v_version bigint;
    v_id      bigint;
    n         record;
    a         record;
BEGIN
    IF v_answer IS NOT NULL THEN
        RETURN v_answer;
    END IF;
    BEGIN
        IF p_kv IS NOT NULL THEN
            v_kv := kv_apply_1(p_kv);
        END IF;
        IF p_timers IS NOT NULL THEN
            v_timers := timers_apply_1(p_timers);
        END IF;

        FOR n IN SELECT x.* FROM jsonb_to_recordset(p_new) AS x(segment integer, queue text, name text)
                  ORDER BY x.queue COLLATE "C", x.segment
        LOOP
            LOOP
                INSERT INTO queues (name, fixed) VALUES (n.queue, false)
                ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;
                SELECT q.* INTO v_queue FROM queues q WHERE q.name = n.queue AND q.deleted_at IS NULL FOR NO KEY UPDATE;
                EXIT WHEN FOUND;  -- else it was deleted between the two: once more
            END LOOP;
            PERFORM FROM log_partitions p WHERE p.queue_id = v_queue.id AND p.name = n.name;
            IF FOUND OR v_queue.fixed THEN
                v_status := 'stale';
                RAISE EXCEPTION USING ERRCODE = 'QT001';
            END IF;
            INSERT INTO log_partitions AS p (queue_id, number, name) VALUES (v_queue.id, v_queue.partitions, n.name)
            RETURNING p.id INTO v_id;
            v_part[n.segment] := v_id;
            UPDATE queues q SET partitions = q.partitions + 1 WHERE q.id = v_queue.id;
            v_grown := v_grown || v_queue.id;
        END LOOP;

        IF cardinality(v_part) > 0 THEN
            FOR a IN SELECT x.* FROM append_1(
                p_epoch => p_epoch, p_wait => true, p_partition => v_part,
                p_known => p_known, p_id_hi => p_id_hi, p_id_lo => p_id_lo, p_window => p_window, p_source => p_source,
                p_verified => p_verified, p_header => p_header, p_data => p_data, p_parts => p_parts,
                p_hashed => p_hashed, p_withheld => p_withheld, p_repeats => p_repeats, p_hashes => p_hashes, p_ttls => p_ttls,
                p_withheld_hashes => p_withheld_hashes, p_part_bytes => p_part_bytes, p_part_size => p_part_size, p_part_batches => p_part_batches,
                p_part_span => p_part_span, p_part_records => p_part_records, p_part_max_ts => p_part_max_ts,
                p_part_pid => p_part_pid, p_part_epoch => p_part_epoch, p_part_seq => p_part_seq,
                p_part_seqs => p_part_seqs, p_part_answer => p_part_answer, p_uid_segment => p_uid_segment,
                p_uid_index => p_uid_index, p_uid_hi => p_uid_hi, p_uid_lo => p_uid_lo,
                p_span_segment => p_span_segment, p_span_from => p_span_from, p_span_to => p_span_to,
                p_span_hits => p_span_hits, p_span_ids => p_span_ids, p_as_of => p_as_of) x
            LOOP
                IF a.status IN (0, 1) THEN
                    v_segments := v_segments || jsonb_build_object('partition', v_part[a.segment], 'base', a.base_offset,
                        'end', a.end_offset, 'next', a.next_offset, 'start', a.log_start,
                        'created', (extract(epoch FROM a.created_at) * 1000000)::bigint,
                        'hi', p_id_hi[a.segment], 'lo', p_id_lo[a.segment]);
                ELSIF a.status = 2 THEN
                    v_status := COALESCE(v_status, 'duplicate');
                    v_dups := v_dups || (
                        SELECT jsonb_agg(jsonb_build_object('segment', a.segment, 'index', u.i, 'offset', u.o, 'hi', u.hi, 'lo', u.lo))
                          FROM unnest(a.dup_index, a.dup_offset, a.dup_hi, a.dup_lo) u(i, o, hi, lo));
                ELSE
                    v_status := CASE a.status WHEN 3 THEN 'window' ELSE 'gone' END;
                    v_segments := jsonb_build_array(a.segment);
                    RAISE EXCEPTION USING ERRCODE = 'QT001';
                END IF;
            END LOOP;
            IF v_status IS NOT NULL THEN
                RAISE EXCEPTION USING ERRCODE = 'QT001';
            END IF;
        END IF;

        FOR n IN SELECT e.n - 1 AS at, x.*
                   FROM jsonb_array_elements(p_acks) WITH ORDINALITY e(o, n)
                  CROSS JOIN LATERAL jsonb_to_record(e.o) AS x("group" text, partition bigint, lease uuid, offsets bigint[],
                                                               outcomes smallint[], reasons text[])
                  ORDER BY e.n
        LOOP
            SELECT x.* INTO a
              FROM ack_apply_1(n."group", n.partition, n.lease, n.offsets, n.outcomes, n.reasons, p_acked_max) x;
            v_acks := v_acks || to_jsonb(a);
            IF a.status <> 0 THEN
                v_status := 'ack';
                v_acks := jsonb_build_object('ack', n.at, 'verdict', a.status);
                RAISE EXCEPTION USING ERRCODE = 'QT001';
            END IF;
        END LOOP;

        IF v_kv ->> 'lost' IS NOT NULL THEN
            v_status := 'kv';
            RAISE EXCEPTION USING ERRCODE = 'QT001';
        END IF;

        IF v_grown <> '{}' THEN
            UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
            UPDATE queues q SET version = v_version WHERE q.id = ANY (v_grown);
        END IF;
        v_answer := jsonb_build_object('status', 'committed', 'segments', v_segments, 'kv', v_kv, 'timers', v_timers, 'acks', v_acks);
    EXCEPTION WHEN SQLSTATE 'QT001' THEN
        v_answer := jsonb_build_object('status', v_status) || CASE v_status
            WHEN 'duplicate' THEN jsonb_build_object('dups', v_dups)
            WHEN 'ack' THEN v_acks
            WHEN 'kv' THEN jsonb_build_object('kv', v_kv)
            WHEN 'stale' THEN '{}'
            ELSE jsonb_build_object('at', v_segments) END;
    END;
    IF v_status IS NULL OR p_repeat AND v_status IN ('duplicate', 'ack', 'kv') THEN
        PERFORM call_end_1(p_call, v_answer);
    ELSIF current_setting('synchronous_standby_names') = '' THEN
        -- Nothing was written: the commit need not wait for the disk. (As in append_1.)
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    RETURN v_answer;
END
$$;
