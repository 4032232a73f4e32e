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

// follows lists the parts, from 1, that must not be the first of their producer.
func follows(segs []Segment) []int32 {
	parts, n := []int32{}, int32(0)
	for i := range segs {
		for j := range segs[i].Parts {
			n++
			if segs[i].Parts[j].Follows {
				parts = append(parts, n)
			}
		}
	}
	return parts
}

// appendArgs turns segments into the arguments of append_1 but its last, with data, their data,
// in its place. What was learned in another incarnation than epoch does not go along.
func appendArgs(segs []Segment, epoch int32, wait bool, data any) []any {
	c := newAppendColumns(segs)
	for i := range segs {
		c.addSegment(&segs[i], int32(i+1), segs[i].Epoch == epoch)
	}
	return []any{
		epoch, wait, c.partition, c.known, c.idHi, c.idLo, c.window, c.source, c.verified, c.header, data,
		c.parts, c.hashed, c.withheld, c.repeats, c.hashes, c.ttls, c.withheldHashes,
		c.bytes, c.size, c.batches, c.span, c.records, c.maxTS, c.producer, c.producerEpoch, c.sequence, c.sequences, c.answer,
		c.uidSegment, c.uidIndex, c.uidHi, c.uidLo, c.spanSegment, c.spanFrom, c.spanTo, c.spanHits, c.spanIDs, c.asOf,
	}
}

// appendColumns are the arrays of append_1, whose file says what each holds.
type appendColumns struct {
	hasTTLs bool  // one segment has; then all of them need as many as they have hashes
	asOf    int64 // the latest of the segments'

	// One element per segment.
	partition, known, idHi, idLo, verified []int64
	window, parts, hashed, withheld        []int32
	source                                 []string
	header                                 [][]byte
	repeats                                []bool

	// One per id.
	hashes, withheldHashes uuidArray
	ttls                   []int64

	// One per part.
	bytes, size, batches, span, records, producerEpoch, sequence, sequences []int32
	maxTS, producer, answer                                                 []int64

	// One per id that looks like a minted one.
	uidSegment, uidIndex []int32
	uidHi, uidLo         []int64

	// One per suspect span, spanIDs apart.
	spanSegment, spanHits, spanIDs []int32
	spanFrom, spanTo               []int64
}

// newAppendColumns makes columns with room for segs, all of them empty and none nil,
// which would be NULL.
func newAppendColumns(segs []Segment) appendColumns {
	var parts, hashes, withheld, uids, spans, spanIDs, ttls int
	for i := range segs {
		s := &segs[i]
		parts += len(s.Parts)
		hashes += len(s.Hashes)
		withheld += len(s.Withheld)
		uids += len(s.UIDs)
		spans += len(s.Suspects)
		for _, sp := range s.Suspects {
			spanIDs += len(sp.IDs)
		}
		ttls += len(s.TTLs)
	}
	hasTTLs := ttls > 0
	if hasTTLs {
		ttls = hashes
	}
	n := len(segs)
	int4s := func(n int) []int32 { return make([]int32, 0, n) }
	int8s := func(n int) []int64 { return make([]int64, 0, n) }
	return appendColumns{
		hasTTLs:   hasTTLs,
		partition: int8s(n), known: int8s(n), idHi: int8s(n), idLo: int8s(n), verified: int8s(n),
		window: int4s(n), parts: int4s(n), hashed: int4s(n), withheld: int4s(n),
		source: make([]string, 0, n), header: make([][]byte, 0, n), repeats: make([]bool, 0, n),

		hashes: make(uuidArray, 0, hashes), withheldHashes: make(uuidArray, 0, withheld), ttls: int8s(ttls),

		bytes: int4s(parts), size: int4s(parts), batches: int4s(parts), span: int4s(parts), records: int4s(parts),
		producerEpoch: int4s(parts), sequence: int4s(parts), sequences: int4s(parts),
		maxTS: int8s(parts), producer: int8s(parts), answer: int8s(parts),

		uidSegment: int4s(uids), uidIndex: int4s(uids), uidHi: int8s(uids), uidLo: int8s(uids),

		spanSegment: int4s(spans), spanHits: int4s(spans), spanIDs: int4s(spanIDs), spanFrom: int8s(spans), spanTo: int8s(spans),
	}
}

// addSegment adds a segment, which has a number from 1. here says that what it was
// told of its partition holds on the connection used; else everything is looked through.
func (c *appendColumns) addSegment(s *Segment, number int32, here bool) {
	known, verified := s.Known, s.Verified
	if !here {
		known, verified = 0, -1
	}
	c.partition = append(c.partition, s.Partition)
	c.known = append(c.known, known)
	c.idHi = append(c.idHi, s.IDHi)
	c.idLo = append(c.idLo, s.IDLo)
	c.window = append(c.window, s.Window)
	c.source = append(c.source, s.Source)
	c.verified = append(c.verified, verified)
	c.header = append(c.header, s.Header)
	c.parts = append(c.parts, int32(len(s.Parts)))
	c.hashed = append(c.hashed, int32(len(s.Hashes)))
	c.withheld = append(c.withheld, int32(len(s.Withheld)))
	c.repeats = append(c.repeats, s.mayRepeat())
	c.hashes = append(c.hashes, s.Hashes...)
	c.withheldHashes = append(c.withheldHashes, s.Withheld...)
	if c.hasTTLs {
		c.ttls = append(c.ttls, s.TTLs...)
		c.ttls = append(c.ttls, make([]int64, len(s.Hashes)-len(s.TTLs))...)
	}
	for i := range s.Parts {
		c.addPart(&s.Parts[i])
	}
	for _, u := range s.UIDs {
		c.uidSegment = append(c.uidSegment, number)
		c.uidIndex = append(c.uidIndex, u.Index+1)
		c.uidHi = append(c.uidHi, u.Hi)
		c.uidLo = append(c.uidLo, u.Lo)
	}
	if here {
		c.addSuspects(s.Suspects, number)
		c.asOf = max(c.asOf, s.AsOf)
	}
}

func (c *appendColumns) addPart(p *Part) {
	sequences, answer := p.Sequences, int64(-1)
	if sequences == 0 {
		sequences = p.Span
	}
	if p.Answered {
		answer = p.Answer
	}
	c.bytes = append(c.bytes, p.Bytes)
	c.size = append(c.size, p.served())
	c.batches = append(c.batches, p.Batches)
	c.span = append(c.span, p.Span)
	c.records = append(c.records, p.Records)
	c.maxTS = append(c.maxTS, p.MaxTimestamp)
	c.producer = append(c.producer, p.Producer)
	c.producerEpoch = append(c.producerEpoch, p.ProducerEpoch)
	c.sequence = append(c.sequence, p.BaseSequence)
	c.sequences = append(c.sequences, sequences)
	c.answer = append(c.answer, answer)
}

func (c *appendColumns) addSuspects(suspects []Suspect, segment int32) {
	for _, sp := range suspects {
		c.spanSegment = append(c.spanSegment, segment)
		c.spanFrom = append(c.spanFrom, sp.From)
		c.spanTo = append(c.spanTo, sp.To)
		for _, id := range sp.IDs {
			c.spanIDs = append(c.spanIDs, id+1)
		}
		c.spanHits = append(c.spanHits, int32(len(c.spanIDs)))
	}
}

// readSegmentResults reads the rows of append.sql, n of them. Their columns come in
// binary form and are read as such: pgx would plan how to read each of them for each call.
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
			row.err = fmt.Errorf("%d duplicates, but %d offsets and %d and %d halves of ids", len(index), len(offset), len(hi), len(lo))
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
