-- timers_fire_1 turns timers that are due into messages: each row goes with the
-- commit that stores its message, so that of several brokers and attempts one fires it.
--
-- p_queue, p_key, p_hi and p_lo name the timers and their scheduling (the
-- message's id); the rest is one segment of one message for each, as append_1
-- takes them, ascending by partition, and a partition may come more than once.
--
-- Promise: one row per timer, in order, as append_1 answers; status NULL where
-- the timer was not to be fired: gone, rescheduled, not due, or being fired by somebody
-- else. Status 0, 1 and 2 (its transactionId is stored already, in the window)
-- delete the timer; with another it stays.
--
-- Locks: the timers' rows (place 2), those that are locked left out; then
-- partitions, ascending (place 4). Index: timers_pkey, and those of append_1.
CREATE FUNCTION timers_fire_1(
    p_queue     text[],
    p_key       text[],
    p_hi        bigint[],
    p_lo        bigint[],
    p_epoch     integer,
    p_partition bigint[],
    p_known     bigint[],
    p_window    integer[],
    p_verified  bigint[],
    p_header    bytea[],
    p_data      bytea[],
    p_hash      uuid[],
    p_bytes     integer[],
    p_size      integer[],
    p_max_ts    bigint[],
    -- Of a transactionId that looks like a minted id, its halves; else NULL:
    p_uid_hi    bigint[],
    p_uid_lo    bigint[],
    -- Suspect spans below p_verified, by segment:
    p_span_segment integer[],
    p_span_from    bigint[],
    p_span_to      bigint[],
    p_as_of        bigint
) RETURNS TABLE (
    segment        integer,
    status         smallint,
    base_offset    bigint,
    end_offset     bigint,
    next_offset    bigint,
    log_start      bigint,
    window_seconds integer,
    created_at     timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    v_ours integer[];
    t      record;
BEGIN
    FOR t IN SELECT x.i FROM unnest(p_queue, p_key, p_hi, p_lo) WITH ORDINALITY x(queue, key, hi, lo, i)
              ORDER BY x.queue COLLATE "C", x.key COLLATE "C"
    LOOP
        PERFORM FROM timers y
          WHERE y.queue = p_queue[t.i] AND y.timer_key = p_key[t.i] AND y.id_hi = p_hi[t.i] AND y.id_lo = p_lo[t.i]
            AND y.due_at <= clock_timestamp()
            FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            v_ours := v_ours || t.i::integer;
        END IF;
    END LOOP;
    FOR s IN 1 .. cardinality(p_partition) LOOP
        segment := s;
        status := NULL;
        IF s = ANY (v_ours) THEN
            SELECT a.status, a.base_offset, a.end_offset, a.next_offset, a.log_start, a.window_seconds, a.created_at
              INTO status, base_offset, end_offset, next_offset, log_start, window_seconds, created_at
              FROM append_1(
                     p_epoch => p_epoch, p_wait => true, p_partition => p_partition[s:s], p_known => p_known[s:s],
                     p_id_hi => p_hi[s:s], p_id_lo => p_lo[s:s], p_window => p_window[s:s], p_source => '{""}',
                     p_verified => p_verified[s:s], p_header => p_header[s:s], p_data => p_data[s],
                     p_parts => '{1}', p_hashed => '{1}', p_withheld => '{0}', p_repeats => '{f}', p_hashes => p_hash[s:s], p_ttls => '{}',
                     p_withheld_hashes => '{}', p_part_bytes => p_bytes[s:s], p_part_size => p_size[s:s], p_part_batches => '{1}',
                     p_part_span => '{1}', p_part_records => '{1}', p_part_max_ts => p_max_ts[s:s], p_part_pid => '{-1}',
                     p_part_epoch => '{0}', p_part_seq => '{0}', p_part_seqs => '{1}', p_part_answer => '{-1}',
                     p_uid_segment => CASE WHEN p_uid_hi[s] IS NULL THEN '{}' ELSE '{1}'::integer[] END,
                     p_uid_index => CASE WHEN p_uid_hi[s] IS NULL THEN '{}' ELSE '{1}'::integer[] END,
                     p_uid_hi => CASE WHEN p_uid_hi[s] IS NULL THEN '{}' ELSE p_uid_hi[s:s] END,
                     p_uid_lo => CASE WHEN p_uid_hi[s] IS NULL THEN '{}' ELSE p_uid_lo[s:s] END,
                     p_span_segment => ARRAY(SELECT 1 FROM unnest(p_span_segment) u WHERE u = s),
                     p_span_from => ARRAY(SELECT f FROM unnest(p_span_segment, p_span_from) u(g, f) WHERE u.g = s),
                     p_span_to => ARRAY(SELECT f FROM unnest(p_span_segment, p_span_to) u(g, f) WHERE u.g = s),
                     -- Each segment has one id, which is what each of its spans may hold.
                     p_span_hits => ARRAY(SELECT (row_number() OVER ())::integer FROM unnest(p_span_segment) u WHERE u = s),
                     p_span_ids => ARRAY(SELECT 1 FROM unnest(p_span_segment) u WHERE u = s), p_as_of => p_as_of) a;
            IF status IN (0, 1, 2) THEN
                DELETE FROM timers y WHERE y.queue = p_queue[s] AND y.timer_key = p_key[s];
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
    -- append_1 lets a call that stores nothing not wait for the disk; this one deletes.
    PERFORM set_config('synchronous_commit', 'on', true);
END
$$;
