package store

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// dataOf is the data of all segments, one after another.
func dataOf(segs []Segment) [][]byte {
	out := make([][]byte, len(segs))
	for i := range segs {
		out[i] = segs[i].Data
	}
	return out
}

// appendArgs turns segments into the parallel arrays of append_1, with data, their
// data, in its place.
func appendArgs(segs []Segment, epoch int32, wait bool, data any) []any {
	n := len(segs)
	var nparts, nhash, nuid, nspan, nsuspect, nttl, nheld int
	for i := range segs {
		nparts += len(segs[i].Parts)
		nhash += len(segs[i].Hashes)
		nuid += len(segs[i].UIDs)
		nspan += len(segs[i].Suspects)
		for _, sp := range segs[i].Suspects {
			nsuspect += len(sp.IDs)
		}
		nheld += len(segs[i].Withheld)
		if len(segs[i].TTLs) > 0 {
			nttl = 1
		}
	}
	nttl *= nhash // all segments of a call or none
	var (
		partition = make([]int64, 0, n)
		known     = make([]int64, 0, n)
		idHi      = make([]int64, 0, n)
		idLo      = make([]int64, 0, n)
		window    = make([]int32, 0, n)
		source    = make([]string, 0, n)
		verified  = make([]int64, 0, n)
		header    = make([][]byte, 0, n)
		parts     = make([]int32, 0, n)
		hashed    = make([]int32, 0, n)
		withheld  = make([]int32, 0, n)
		repeats   = make([]bool, 0, n)

		hashes  = make(uuidArray, 0, nhash)
		bytes   = make([]int32, 0, nparts)
		size    = make([]int32, 0, nparts)
		batches = make([]int32, 0, nparts)
		span    = make([]int32, 0, nparts)
		records = make([]int32, 0, nparts)
		maxTS   = make([]int64, 0, nparts)
		pid     = make([]int64, 0, nparts)
		pepoch  = make([]int32, 0, nparts)
		seq     = make([]int32, 0, nparts)
		seqs    = make([]int32, 0, nparts)
		answer  = make([]int64, 0, nparts)
		ttls    = make([]int64, 0, nttl)
		held    = make(uuidArray, 0, nheld)

		uidSeg   = make([]int32, 0, nuid)
		uidIndex = make([]int32, 0, nuid)
		uidHi    = make([]int64, 0, nuid)
		uidLo    = make([]int64, 0, nuid)

		spanSeg  = make([]int32, 0, nspan)
		spanFrom = make([]int64, 0, nspan)
		spanTo   = make([]int64, 0, nspan)
		spanHits = make([]int32, 0, nspan)
		spanIDs  = make([]int32, 0, nsuspect)
	)
	for i := range segs {
		s := &segs[i]
		partition = append(partition, s.Partition)
		here := s.Epoch == epoch
		if here {
			known = append(known, s.Known)
			verified = append(verified, s.Verified)
		} else {
			known = append(known, 0)
			verified = append(verified, -1)
		}
		idHi = append(idHi, s.IDHi)
		idLo = append(idLo, s.IDLo)
		window = append(window, s.Window)
		source = append(source, s.Source)
		header = append(header, s.Header)
		parts = append(parts, int32(len(s.Parts)))
		hashed = append(hashed, int32(len(s.Hashes)))
		hashes = append(hashes, s.Hashes...)
		withheld = append(withheld, int32(len(s.Withheld)))
		held = append(held, s.Withheld...)
		repeats = append(repeats, s.mayRepeat())
		if nttl > 0 {
			ttls = append(ttls, s.TTLs...)
			ttls = append(ttls, make([]int64, len(s.Hashes)-len(s.TTLs))...)
		}
		for _, p := range s.Parts {
			bytes = append(bytes, p.Bytes)
			size = append(size, p.served())
			batches = append(batches, p.Batches)
			span = append(span, p.Span)
			records = append(records, p.Records)
			maxTS = append(maxTS, p.MaxTimestamp)
			pid = append(pid, p.Producer)
			pepoch = append(pepoch, p.ProducerEpoch)
			seq = append(seq, p.BaseSequence)
			if p.Sequences == 0 {
				p.Sequences = p.Span
			}
			seqs = append(seqs, p.Sequences)
			if !p.Answered {
				p.Answer = -1
			}
			answer = append(answer, p.Answer)
		}
		for _, u := range s.UIDs {
			uidSeg = append(uidSeg, int32(i+1))
			uidIndex = append(uidIndex, u.Index+1)
			uidHi = append(uidHi, u.Hi)
			uidLo = append(uidLo, u.Lo)
		}
		if !here {
			continue
		}
		for _, sp := range s.Suspects {
			spanSeg = append(spanSeg, int32(i+1))
			spanFrom = append(spanFrom, sp.From)
			spanTo = append(spanTo, sp.To)
			for _, i := range sp.IDs {
				spanIDs = append(spanIDs, i+1)
			}
			spanHits = append(spanHits, int32(len(spanIDs)))
		}
	}
	return []any{
		epoch, wait, partition, known, idHi, idLo, window, source, verified, header, data, parts, hashed, withheld,
		repeats, hashes, ttls, held, bytes, size, batches, span, records, maxTS, pid, pepoch, seq, seqs, answer,
		uidSeg, uidIndex, uidHi, uidLo, spanSeg, spanFrom, spanTo, spanHits, spanIDs,
	}
}

// readSegmentResults reads the rows of append.sql, all of whose columns come in
// binary form: pgx would plan how to read each of them for each call.
func readSegmentResults(rows pgx.Rows, n int) ([]SegmentResult, error) {
	defer rows.Close()
	out := make([]SegmentResult, 0, n)
	for rows.Next() {
		row := binaryRow{values: rows.RawValues()}
		r := SegmentResult{
			Status: SegmentStatus(row.integer(0)),
			Base:   row.integer(-1), End: row.integer(-1), Next: row.integer(-1), LogStart: row.integer(-1),
			WindowSeconds: int32(row.integer(0)), CreatedAt: row.time(),
		}
		verdicts := row.integers(pgtype.Int2OID, 2)
		r.Offsets = row.integers(pgtype.Int8OID, 8)
		index := row.integers(pgtype.Int4OID, 4)
		offset, hi, lo := row.integers(pgtype.Int8OID, 8), row.integers(pgtype.Int8OID, 8), row.integers(pgtype.Int8OID, 8)
		r.Compacted = row.integer(0) != 0
		if row.err == nil && (len(offset) != len(index) || len(hi) != len(index) || len(lo) != len(index)) {
			row.err = fmt.Errorf("%d duplicates at %d offsets", len(index), len(offset))
		}
		if row.err != nil {
			return nil, row.err
		}
		r.Verdicts = make([]PartVerdict, len(verdicts))
		for i, v := range verdicts {
			r.Verdicts[i] = PartVerdict(v)
		}
		if len(index) > 0 {
			r.Dups = make([]Dup, len(index))
		}
		for i := range index {
			r.Dups[i] = Dup{Index: int32(index[i]) - 1, Offset: offset[i], IDHi: hi[i], IDLo: lo[i]}
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
