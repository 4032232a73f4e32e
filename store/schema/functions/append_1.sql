-- append_1 stores one segment in each of several partitions, or says per
-- segment why not. It is the only writer of log_segments, log_txns and producers.
--
-- Promise: per segment, in this order and under the partition's row lock:
--   1 the id base is looked for above the end known when it was minted: a
--     repeat of a call is answered with what the first attempt stored;
--   2 the sequence rule of idempotent producers judges each part; refused parts
--     and resends are left out, the rest goes on;
--   3 the deduplication window and the source of record ids are read; others than
--     assumed: nothing is written;
--   4 the ids are probed in the window above p_verified and in the named spans,
--     those withheld with them: unless all of these and no others are stored,
--     nothing is written; what was found is reported in any case;
--   5 segment, sidecar row and producer states are inserted.
-- Verdicts are values, never errors: an error would roll back the other segments.
--
-- Locks: partitions, ascending id (place 4 in store/doc.go), then nothing that waits.
-- The lock is a statement of its own: a statement sees the snapshot taken before
-- it waited, so a look inside it would miss what the lock's holder committed.
-- Indexes: log_partitions_pkey, queues_pkey, log_txns_pkey, producers_pkey.
--
-- Status: 0 stored, 1 already stored by an earlier attempt, 2 duplicates found,
-- 3 window or source changed, 4 partition gone, 5 busy (only with p_wait false), 6 every part left out.
-- Part verdict: 0 stored, 1 resend (its original offset), 2 sequence out of order,
-- 3 epoch fenced, 4 resend of a batch no longer remembered.
CREATE FUNCTION append_1(
    p_epoch        integer,    -- leader epoch written into the segments
    p_wait         boolean,    -- false: skip partitions whose row is locked
    -- One element per segment, ascending by partition, no partition twice:
    p_partition    bigint[],
    p_known        bigint[],   -- the next offset known when the id base was minted
    p_id_hi        bigint[],
    p_id_lo        bigint[],
    p_window       integer[],  -- the window assumed, seconds
    p_source       text[],     -- the source of record ids assumed; '' where no record was read for its id
    p_verified     bigint[],   -- no id of the segment occurs at or below, spans apart; −1: cannot vouch
    p_header       bytea[],    -- its last 32 bytes per batch describe the batches
    p_data         bytea,      -- of all segments, one after another: an array would be copied once more
    p_parts        integer[],  -- number of parts
    p_hashed       integer[],  -- number of hashes: 0, or one per offset
    p_withheld     integer[],  -- number of ids whose messages are not sent, because they seem to be stored
    p_repeats      boolean[],  -- an id may occur twice among the hashes and the withheld of the segment
    -- Flattened over the segments, in their order:
    p_hashes       uuid[],
    p_ttls         bigint[],   -- one per hash, 0 for none; or empty
    p_withheld_hashes uuid[],
    p_part_bytes   integer[],  -- in p_data
    p_part_size    integer[],  -- as served
    p_part_batches integer[],
    p_part_span    integer[],  -- offsets consumed
    p_part_records integer[],
    p_part_max_ts  bigint[],
    p_part_pid     bigint[],   -- producer id, −1 for none
    p_part_epoch   integer[],
    p_part_seq     integer[],  -- base sequence
    p_part_seqs    integer[],  -- sequence numbers consumed: the records as sent
    p_part_answer  bigint[],   -- of a part all of whose records were dropped as duplicates: the offset to answer; else −1
    -- Ids that look like minted ones: segment, offset within it (both from 1), halves:
    p_uid_segment  integer[],
    p_uid_index    integer[],
    p_uid_hi       bigint[],
    p_uid_lo       bigint[],
    -- Suspect spans below p_verified: segment (from 1), first and last offset, and how
    -- many of p_span_ids are those of it and the spans before; each names an id that the
    -- span may hold: its place among the hashes of the segment (from 1), the withheld after them.
    p_span_segment integer[],
    p_span_from    bigint[],
    p_span_to      bigint[],
    p_span_hits    integer[],
    p_span_ids     integer[],
    p_as_of        bigint,     -- p_verified holds from this time on, µs since 1970; before it, by a clock that was put back, nothing does
    -- Parts, from 1, before which this producer must have stored something: an earlier
    -- batch of it came, was not stored as far as is known, and is to come again.
    p_follows      integer[] DEFAULT '{}'
) RETURNS TABLE (
    segment        integer,    -- from 1
    status         smallint,
    base_offset    bigint,
    end_offset     bigint,
    next_offset    bigint,     -- of the partition, after the call
    log_start      bigint,
    window_seconds integer,
    created_at     timestamptz,
    part_verdicts  smallint[],
    part_offsets   bigint[],
    dup_index      integer[],  -- offset within the segment, from 1; those withheld follow its last
    dup_offset     bigint[],   -- of the original
    dup_hi         bigint[],   -- its message id; both halves 0 when it can no longer be read
    dup_lo         bigint[],
    dup_compacted  boolean     -- compaction may have removed originals: whoever answers looks
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    c_nil     CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    c_short   CONSTANT bigint := 16384;  -- comparisons, some 5 ns each; a probe takes 100 µs to begin
    c_near    CONSTANT integer := 1000;  -- offsets behind a span, within which its row mostly ends
    v_locked  bigint[];
    v_now     timestamptz;
    v_early   boolean;        -- than p_as_of
    v_pid     bigint;
    v_part    integer := 0;   -- parts of the segments before this one
    v_hash    integer := 0;   -- hashes of the segments before this one
    v_held    integer := 0;   -- ids withheld of the segments before this one
    v_n       integer;        -- parts of this segment
    v_at_data integer := 0;   -- bytes of the segments before this one
    v_bytes   integer;        -- of this segment
    v_txns_start bigint;
    v_max_ids bigint;
    v_source  text;
    v_ttls    bigint[];
    v_newest  timestamptz;
    v_max_ts  bigint;
    v_total   bigint;         -- bytes written to the partition before
    v_hashes  uuid[];
    v_ids     uuid[];         -- what is probed: v_hashes and the withheld
    v_kept    integer;
    v_answered boolean;       -- a part stores no record and has its answer with it
    v_at      bigint;         -- the offset the next kept part would get
    v_from    bigint;
    v_probe   boolean;
    v_spans   boolean;
    v_since   timestamptz;
    -- The running producer states of this segment.
    v_pids    bigint[];
    v_states  producers[];
    v_state   producers;
    v_i       integer;
    v_first   integer;        -- sequence numbers of the part
    v_last    integer;
    v_seq     integer;        -- the newest one of the producer
    v_behind  integer;        -- by how much the part ends before the oldest one remembered
    v_count   integer;        -- batches remembered
    v_verdict smallint;
    v_records integer;
    v_size    integer;        -- of the kept parts, as served
    v_data    bytea;
    v_header  bytea;
    v_entries integer;        -- where the batch entries begin in the header
    v_byte    integer;
    v_batch   integer;
    v_offset  integer;
    v_wrote   boolean := false;
BEGIN
    IF p_wait THEN
        v_locked := ARRAY(SELECT p.id FROM log_partitions p WHERE p.id = ANY (p_partition)
                          ORDER BY p.id FOR NO KEY UPDATE);
    ELSE
        v_locked := ARRAY(SELECT p.id FROM log_partitions p WHERE p.id = ANY (p_partition)
                          ORDER BY p.id FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    v_now := clock_timestamp();
    v_early := extract(epoch FROM v_now) * 1000000 < p_as_of;

    FOR s IN 1 .. cardinality(p_partition) LOOP
        segment := s;
        v_pid := p_partition[s];
        v_n := p_parts[s];
        v_bytes := 0;
        FOR k IN v_part + 1 .. v_part + v_n LOOP
            v_bytes := v_bytes + p_part_bytes[k];
        END LOOP;
        base_offset := NULL; end_offset := NULL; created_at := NULL; next_offset := NULL;
        part_verdicts := NULL; part_offsets := NULL;
        dup_index := NULL; dup_offset := NULL; dup_hi := NULL; dup_lo := NULL; dup_compacted := NULL;
        status := NULL;

        -- The row is read after the lock, and the queue with it.
        SELECT p.start_offset, p.txns_start, q.dedup_window_seconds, q.dedup_max_ids, q.dedup_source
          INTO log_start, v_txns_start, window_seconds, v_max_ids, v_source
          FROM log_partitions p
         CROSS JOIN LATERAL (SELECT x.dedup_window_seconds, x.dedup_max_ids, x.dedup_source, x.deleted_at FROM queues x
                              WHERE x.id = p.queue_id LIMIT 1) q
         WHERE p.id = v_pid AND q.deleted_at IS NULL;
        IF NOT FOUND THEN
            status := 4;
        ELSIF v_pid <> ALL (v_locked) THEN
            status := 5;
        ELSE
            SELECT t.end_offset + 1, t.created_at, t.max_timestamp, t.total_size
              INTO next_offset, v_newest, v_max_ts, v_total
              FROM log_txns t WHERE t.partition_id = v_pid
             ORDER BY t.end_offset DESC LIMIT 1;
            IF NOT FOUND THEN
                next_offset := 0; v_newest := '-infinity'; v_max_ts := -1; v_total := 0;
            END IF;

            -- 1 An earlier attempt of this very call.
            IF next_offset > p_known[s] THEN
                SELECT t.base_offset, t.end_offset, t.created_at, t.part_verdicts, t.part_offsets
                  INTO base_offset, end_offset, created_at, part_verdicts, part_offsets
                  FROM log_txns t
                 WHERE t.partition_id = v_pid AND t.end_offset >= p_known[s]
                   AND t.id_hi = p_id_hi[s] AND t.id_lo = p_id_lo[s]
                 ORDER BY t.end_offset LIMIT 1;
                IF FOUND THEN
                    status := 1;
                    IF part_verdicts IS NULL THEN
                        v_at := base_offset;
                        FOR k IN v_part + 1 .. v_part + v_n LOOP
                            part_verdicts := part_verdicts || 0::smallint;
                            part_offsets := part_offsets || v_at;
                            v_at := v_at + p_part_span[k];
                        END LOOP;
                    END IF;
                END IF;
            END IF;
        END IF;

        IF status IS NULL THEN
            -- 2 Each part in turn, with running producer state.
            v_at := next_offset;
            v_kept := 0;
            v_answered := false;
            v_records := 0;
            v_size := 0;
            v_pids := '{}';
            v_states := '{}';
            FOR k IN v_part + 1 .. v_part + v_n LOOP
                v_verdict := 0;
                IF p_part_pid[k] >= 0 THEN
                    v_i := array_position(v_pids, p_part_pid[k]);
                    IF v_i IS NOT NULL THEN
                        v_state := v_states[v_i];
                    ELSE
                        SELECT * INTO v_state FROM producers r
                         WHERE r.partition_id = v_pid AND r.producer_id = p_part_pid[k]
                         ORDER BY r.end_offset DESC LIMIT 1;
                        IF NOT FOUND THEN
                            v_state := ROW(v_pid, p_part_pid[k], NULL, p_part_epoch[k], '{}', '{}', '{}', NULL);
                        END IF;
                        v_pids := v_pids || p_part_pid[k];
                        v_states := v_states || v_state;
                        v_i := cardinality(v_pids);
                    END IF;
                    v_first := p_part_seq[k];
                    v_last := ((v_first::bigint + p_part_seqs[k] - 1) & 2147483647)::integer;
                    IF p_part_epoch[k] < v_state.epoch THEN
                        v_verdict := 3;
                    ELSIF p_part_epoch[k] > v_state.epoch THEN
                        -- A new epoch starts over at sequence 0.
                        IF v_first <> 0 THEN
                            v_verdict := 2;
                        ELSE
                            v_state.epoch := p_part_epoch[k];
                            v_state.first_seqs := '{}'; v_state.last_seqs := '{}'; v_state.base_offsets := '{}';
                        END IF;
                    ELSIF cardinality(v_state.first_seqs) > 0 THEN
                        FOR j IN REVERSE cardinality(v_state.first_seqs) .. 1 LOOP
                            IF v_state.first_seqs[j] = v_first AND v_state.last_seqs[j] = v_last THEN
                                v_verdict := 1;
                                part_offsets := part_offsets || v_state.base_offsets[j];
                                EXIT;
                            END IF;
                        END LOOP;
                        IF v_verdict = 0 THEN
                            v_seq := v_state.last_seqs[cardinality(v_state.last_seqs)];
                            IF v_first <> ((v_seq::bigint + 1) & 2147483647)::integer THEN
                                -- Only before all of five remembered ones is it surely an old resend.
                                v_behind := ((v_state.first_seqs[1]::bigint - v_last) & 2147483647)::integer;
                                IF cardinality(v_state.first_seqs) >= 5 AND v_behind BETWEEN 1 AND 1073741823 THEN
                                    v_verdict := 4;
                                ELSE
                                    v_verdict := 2;
                                END IF;
                            END IF;
                        END IF;
                    ELSIF k = ANY (p_follows) THEN
                        v_verdict := 2;
                        v_pids[v_i] := -1;  -- nothing is known of it, as before
                    END IF;
                    IF v_verdict = 0 THEN
                        v_count := cardinality(v_state.first_seqs);
                        IF v_count >= 5 THEN
                            v_state.first_seqs := v_state.first_seqs[v_count - 3 :];
                            v_state.last_seqs := v_state.last_seqs[v_count - 3 :];
                            v_state.base_offsets := v_state.base_offsets[v_count - 3 :];
                        END IF;
                        v_state.first_seqs := v_state.first_seqs || v_first;
                        v_state.last_seqs := v_state.last_seqs || v_last;
                        v_state.base_offsets := v_state.base_offsets ||
                            CASE WHEN p_part_answer[k] >= 0 THEN p_part_answer[k] ELSE v_at END;
                        v_state.updated_at := v_now;
                        v_states[v_i] := v_state;
                    END IF;
                END IF;
                part_verdicts := part_verdicts || v_verdict;
                IF v_verdict = 0 THEN
                    part_offsets := part_offsets || CASE WHEN p_part_answer[k] >= 0 THEN p_part_answer[k] ELSE v_at END;
                    v_at := v_at + p_part_span[k];
                    v_kept := v_kept + 1;
                    v_answered := v_answered OR p_part_answer[k] >= 0;
                    v_records := v_records + p_part_records[k];
                    v_size := v_size + p_part_size[k];
                    v_max_ts := GREATEST(v_max_ts, p_part_max_ts[k]);
                ELSIF v_verdict <> 1 THEN
                    part_offsets := part_offsets || (-1)::bigint;
                END IF;
            END LOOP;
            IF v_kept = 0 THEN
                status := 6;
            ELSIF window_seconds <> p_window[s] OR p_source[s] <> '' AND p_source[s] <> v_source THEN
                -- 3 What was read, folded and vouched for was right under other options.
                status := 3;
            END IF;
        END IF;

        IF status IS NULL THEN
            v_hashes := '{}';
            IF p_hashed[s] > 0 THEN
                v_hashes := p_hashes[v_hash + 1 : v_hash + p_hashed[s]];
                IF v_kept < v_n THEN
                    -- Left-out parts are not looked for.
                    v_offset := 0;
                    FOR k IN v_part + 1 .. v_part + v_n LOOP
                        IF part_verdicts[k - v_part] <> 0 THEN
                            FOR j IN v_offset + 1 .. v_offset + p_part_span[k] LOOP
                                v_hashes[j] := c_nil;
                            END LOOP;
                        END IF;
                        v_offset := v_offset + p_part_span[k];
                    END LOOP;
                END IF;
            END IF;
            IF window_seconds > 0 AND p_hashed[s] + p_withheld[s] > 0 THEN
                -- 4 The probe: the one authority on what is stored.
                v_ids := v_hashes || p_withheld_hashes[v_held + 1 : v_held + p_withheld[s]];
                v_from := GREATEST(CASE WHEN v_early THEN -1 ELSE p_verified[s] END, v_txns_start - 1, next_offset - v_max_ids - 1);
                v_spans := s = ANY (p_span_segment);
                -- Vouched for up to the end, nothing but the spans is left to look into. And a
                -- few ids in a short stretch, as in partitions with little in them, are mostly
                -- new, which one look at its rows says for less than the probe takes to begin.
                v_probe := p_repeats[s] OR s = ANY (p_uid_segment);
                IF NOT v_probe AND next_offset - 1 > v_from THEN
                    v_probe := (next_offset - 1 - v_from) * cardinality(v_ids) > c_short
                        OR COALESCE((SELECT true FROM log_txns t
                                      WHERE t.partition_id = v_pid AND t.end_offset > v_from AND t.hashes && v_ids
                                      ORDER BY t.end_offset LIMIT 1), false);
                END IF;
                IF v_spans OR v_probe THEN
                    v_since := v_now - make_interval(secs => window_seconds);
                    SELECT array_agg(d.i ORDER BY d.i), array_agg(d.off ORDER BY d.i),
                           array_agg(CASE WHEN d.off >= log_start THEN d.hi ELSE 0 END ORDER BY d.i),
                           array_agg(CASE WHEN d.off >= log_start THEN d.lo ELSE 0 END ORDER BY d.i)
                      INTO dup_index, dup_offset, dup_hi, dup_lo
                      FROM (
                            SELECT DISTINCT ON (f.i) f.i, f.off, f.hi, f.lo
                              FROM (
                                    -- Each span's own ids, in what it touches of its rows.
                                    SELECT h.i, t.base_offset + q.k - 1 AS off, t.id_hi AS hi, t.id_lo + q.k - 1 AS lo
                                      FROM unnest(p_span_segment, p_span_from, p_span_to, p_span_hits) WITH ORDINALITY u(seg, a, b, z, n)
                                     CROSS JOIN LATERAL (
                                            SELECT x.base_offset + x.skip AS base_offset, x.id_hi, x.id_lo + x.skip AS id_lo,
                                                   x.hashes[x.skip + 1 : u.b - x.base_offset + 1] AS hashes,
                                                   x.ttls[x.skip + 1 : u.b - x.base_offset + 1] AS ttls, x.created_at
                                              FROM (
                                                    -- Rows follow one another, so a span ends in the first row at or above its
                                                    -- end. Without this bound on the key the scan of each span goes on to v_from.
                                                    -- It is mostly near: an index reads all of a page that may be asked for.
                                                    SELECT y.*, GREATEST(u.a - y.base_offset, 0)::integer AS skip FROM log_txns y
                                                     WHERE y.partition_id = v_pid AND y.end_offset >= u.a AND y.end_offset <= v_from
                                                       AND y.end_offset <= COALESCE((
                                                               SELECT z.end_offset FROM log_txns z
                                                                WHERE z.partition_id = v_pid AND z.end_offset BETWEEN u.b AND u.b + c_near
                                                                ORDER BY z.end_offset LIMIT 1), (
                                                               SELECT z.end_offset FROM log_txns z
                                                                WHERE z.partition_id = v_pid AND z.end_offset >= u.b
                                                                ORDER BY z.end_offset LIMIT 1), v_from)
                                                       AND y.created_at >= v_since
                                                   ) x
                                            OFFSET 0  -- so that the rows are cut once, not for each id
                                           ) t
                                     CROSS JOIN LATERAL unnest(p_span_ids[COALESCE(p_span_hits[u.n - 1], 0) + 1 : u.z]) h(i)
                                     CROSS JOIN LATERAL (
                                            SELECT CASE WHEN t.ttls IS NULL THEN array_position(t.hashes, v_ids[h.i])
                                                   ELSE (SELECT min(a.k) FROM unnest(array_positions(t.hashes, v_ids[h.i])) a(k)
                                                          WHERE t.ttls[a.k] = 0 OR t.created_at > v_now - t.ttls[a.k] * interval '1 millisecond')
                                                   END AS k
                                            OFFSET 0  -- and each looked for once
                                           ) q
                                     WHERE v_spans AND u.seg = s AND v_ids[h.i] <> c_nil AND q.k IS NOT NULL
                                    UNION ALL
                                    SELECT x.i, x.off, x.hi, x.lo
                                      FROM probe_1(v_pid, v_from, next_offset, v_now, v_since, v_ids,
                                                   s, p_uid_segment, p_uid_index, p_uid_hi, p_uid_lo) x
                                     WHERE v_probe
                                   ) f
                             WHERE f.off >= v_txns_start AND f.off >= next_offset - v_max_ids
                             ORDER BY f.i, f.off
                           ) d;
                END IF;
                IF dup_index IS NOT NULL THEN
                    dup_compacted := EXISTS (SELECT FROM log_compactions c WHERE c.partition_id = v_pid);
                END IF;
                -- A message withheld that is not stored has its place before others of the segment.
                IF p_withheld[s] <> COALESCE(cardinality(dup_index), 0) OR dup_index[1] <= p_hashed[s] THEN
                    status := 2;
                END IF;
            END IF;
        END IF;

        IF status IS NULL THEN
            -- 5 Write.
            v_data := substr(p_data, v_at_data + 1, v_bytes);
            v_header := p_header[s];
            v_ttls := NULL;
            IF p_hashed[s] > 0 AND cardinality(p_ttls) > 0 THEN
                v_ttls := p_ttls[v_hash + 1 : v_hash + p_hashed[s]];
            END IF;
            IF v_kept < v_n THEN
                v_entries := octet_length(v_header);
                FOR k IN v_part + 1 .. v_part + v_n LOOP
                    v_entries := v_entries - 32 * p_part_batches[k];
                END LOOP;
                v_header := substr(v_header, 1, v_entries);
                v_data := ''; v_byte := 0; v_batch := 0; v_offset := 0;
                IF p_hashed[s] > 0 THEN
                    v_hashes := '{}';
                    v_ttls := '{}';
                END IF;
                FOR k IN v_part + 1 .. v_part + v_n LOOP
                    IF part_verdicts[k - v_part] = 0 THEN
                        v_data := v_data || substr(p_data, v_at_data + v_byte + 1, p_part_bytes[k]);
                        v_header := v_header || substr(p_header[s], v_entries + 32 * v_batch + 1, 32 * p_part_batches[k]);
                        IF p_hashed[s] > 0 THEN
                            v_hashes := v_hashes || p_hashes[v_hash + v_offset + 1 : v_hash + v_offset + p_part_span[k]];
                            v_ttls := v_ttls || p_ttls[v_hash + v_offset + 1 : v_hash + v_offset + p_part_span[k]];
                        END IF;
                    END IF;
                    v_byte := v_byte + p_part_bytes[k];
                    v_batch := v_batch + p_part_batches[k];
                    v_offset := v_offset + p_part_span[k];
                END LOOP;
            END IF;
            base_offset := next_offset;
            end_offset := v_at - 1;
            next_offset := v_at;
            created_at := GREATEST(v_now, v_newest);
            IF v_records > 0 THEN
                INSERT INTO log_segments AS l (partition_id, end_offset, base_offset, created_at, max_timestamp,
                                               leader_epoch, records, size, header, data, total_size)
                VALUES (v_pid, end_offset, base_offset, created_at, v_max_ts,
                        p_epoch, v_records, v_size, v_header, v_data, v_total + v_size);
                INSERT INTO log_txns AS l (partition_id, end_offset, base_offset, created_at, max_timestamp,
                                           id_hi, id_lo, hashes, ttls, part_verdicts, part_offsets, total_size)
                VALUES (v_pid, end_offset, base_offset, created_at, v_max_ts, p_id_hi[s], p_id_lo[s], v_hashes,
                        CASE WHEN cardinality(v_ttls) > 0 THEN v_ttls END,
                        CASE WHEN v_kept < v_n OR v_answered THEN part_verdicts END,
                        CASE WHEN v_kept < v_n OR v_answered THEN part_offsets END, v_total + v_size);
            END IF;
            FOR j IN 1 .. cardinality(v_pids) LOOP
                v_state := v_states[j];
                CONTINUE WHEN v_state.updated_at IS DISTINCT FROM v_now;
                IF v_state.end_offset IS NULL THEN
                    INSERT INTO producers AS r VALUES (v_pid, v_state.producer_id, end_offset, v_state.epoch,
                        v_state.first_seqs, v_state.last_seqs, v_state.base_offsets, v_now);
                ELSE
                    UPDATE producers AS r
                       SET end_offset = append_1.end_offset, epoch = v_state.epoch, first_seqs = v_state.first_seqs,
                           last_seqs = v_state.last_seqs, base_offsets = v_state.base_offsets, updated_at = v_now
                     WHERE r.partition_id = v_pid AND r.producer_id = v_state.producer_id
                       AND r.end_offset = v_state.end_offset;
                END IF;
            END LOOP;
            status := 0;
            v_wrote := true;
        END IF;

        RETURN NEXT;
        v_part := v_part + v_n;
        v_at_data := v_at_data + v_bytes;
        v_hash := v_hash + p_hashed[s];
        v_held := v_held + p_withheld[s];
    END LOOP;
    IF NOT v_wrote AND current_setting('synchronous_standby_names') = '' THEN
        -- The transaction holds row locks and nothing else: its commit need not
        -- wait for the disk. What its verdicts name was on disk before whoever
        -- wrote it let the lock go. (A wait for a standby can be cancelled, so
        -- where there is one, this call's own wait is what makes sure.)
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END
$$;
