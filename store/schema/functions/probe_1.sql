-- probe_1 finds which ids of a segment are already stored in its partition.
--
-- Promise: one row per occurrence found: i is the offset within the segment (from 1),
-- off the original's offset, hi and lo its message id. Found is what was created
-- at or after p_since and is younger, at p_now, than its own time to live. Hashes
-- are looked for in what the sidecar holds above p_from; ids that look like minted
-- ones in all of the window; and an id repeated inside the segment is reported at
-- its later places, with the offset its first place would get (p_next + place − 1)
-- and no message id.
--
-- Locks: none; the caller holds the partition's row. Indexes: log_runs_pkey, log_txns_ids.
CREATE FUNCTION probe_1(
    p_partition    bigint,
    p_from         bigint,
    p_next         bigint,
    p_now          timestamptz,
    p_since        timestamptz,
    p_hashes       uuid[],
    p_segment      integer,
    p_uid_segment  integer[],
    p_uid_index    integer[],
    p_uid_hi       bigint[],
    p_uid_lo       bigint[]
) RETURNS TABLE (i integer, off bigint, hi bigint, lo bigint)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    c_nil CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    v_from bigint := p_from;
    v_runs record;
BEGIN
    -- The sorted runs first: what is stored above what they cover is looked
    -- through in a later statement, and cannot grow while the row is locked.
    SELECT NULL::bigint AS covered, NULL::integer[] AS idx, NULL::bigint[] AS off, NULL::bigint[] AS hi, NULL::bigint[] AS lo
      INTO v_runs;
    PERFORM FROM log_runs r WHERE r.partition_id = p_partition AND r.last_offset > p_from LIMIT 1;
    IF FOUND THEN
        SELECT * INTO v_runs FROM runs_probe_1(p_partition, p_from, p_now, p_since, p_hashes);
        v_from := GREATEST(v_from, v_runs.covered);
    END IF;
    RETURN QUERY
    SELECT h.i, h.off, h.hi, h.lo FROM rows_probe_1(p_partition, v_from, p_next, p_now, p_since, p_hashes) h
    UNION ALL
    SELECT u.* FROM unnest(v_runs.idx, v_runs.off, v_runs.hi, v_runs.lo) u
    UNION ALL
    -- A minted id given back as a client's: its row's range says it, if
    -- that place was indeed minted.
    SELECT u.i, t.base_offset + (u.lo - t.id_lo), u.hi, u.lo
      FROM unnest(p_uid_segment, p_uid_index, p_uid_hi, p_uid_lo) u(seg, i, hi, lo)
      JOIN log_txns t ON t.partition_id = p_partition AND t.id_hi = u.hi
     WHERE u.seg = p_segment AND p_hashes[u.i] <> c_nil
       AND u.lo BETWEEN t.id_lo AND t.id_lo + (t.end_offset - t.base_offset)
       AND t.created_at >= p_since
       AND (cardinality(t.hashes) = 0 OR t.hashes[(u.lo - t.id_lo + 1)::integer] = c_nil);
END
$$;
