package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"queenmq/store"
)

// TestAppendLeavesOutRefusedParts sends four parts of one producer: a new one,
// the same again, one with a gap, and the next in order.
func TestAppendLeavesOutRefusedParts(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	s := l.segment(0, 3600, 10, 11, 10, 11, 12, 13)
	s.Data = []byte("AAaaBBccc") // parts of 2, 2, 2 and 3 bytes
	s.Header = []byte{1, 2, 3, 4}
	s.Parts = nil
	// Stored in these bytes, served in ten times as many.
	for i, p := range []struct{ bytes, span, seq int32 }{{2, 2, 0}, {2, 2, 0}, {2, 1, 9}, {3, 1, 2}} {
		s.Header = append(s.Header, []byte(strings.Repeat(fmt.Sprint(i), 32))...)
		s.Parts = append(s.Parts, store.Part{Bytes: p.bytes, Size: 10 * p.bytes, Batches: 1, Span: p.span, Records: p.span, Producer: 5, BaseSequence: p.seq})
	}
	for _, status := range []store.SegmentStatus{store.SegmentStored, store.SegmentAlready} {
		res := l.append(l.db, s)[0]
		l.want(res, status, 0, 2, 3)
		if want := []store.PartVerdict{0, 1, 2, 0}; !slices.Equal(res.Verdicts, want) {
			t.Fatalf("verdicts %v, want %v", res.Verdicts, want)
		}
		if want := []int64{0, 0, -1, 2}; !slices.Equal(res.Offsets, want) {
			t.Fatalf("offsets %v, want %v", res.Offsets, want)
		}
	}
	var data, header []byte
	var records, size, total, totalTxns int
	l.scan(`SELECT data, header, records, size, s.total_size, x.total_size FROM log_segments s JOIN log_txns x USING (partition_id, end_offset)`,
		nil, &data, &header, &records, &size, &total, &totalTxns)
	if string(data) != "AAccc" || records != 3 || size != 50 || total != 50 || totalTxns != 50 {
		t.Fatalf("stored %q, %d records, %d bytes as served, %d and %d in all; want AAccc, 3 and 50", data, records, size, total, totalTxns)
	}
	if want := "\x01\x02\x03\x04" + strings.Repeat("0", 32) + strings.Repeat("3", 32); string(header) != want {
		t.Fatalf("header %q, want %q", header, want)
	}
	var hashes int
	l.scan(`SELECT cardinality(hashes) FROM log_txns`, nil, &hashes)
	if hashes != 3 {
		t.Fatalf("%d hashes, want 3", hashes)
	}
}

// TestAppendPartWhoseRecordsAreAllDuplicatesKeepsItsSequence: nothing of it is
// stored, its producer goes on after it, and a resend gets the same answer.
func TestAppendPartWhoseRecordsAreAllDuplicatesKeepsItsSequence(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	l.append(l.db, l.segment(0, 3600, 1, 2))
	part := func(answered bool, span, seqs, seq int32, ids ...int) store.SegmentResult {
		s := l.segment(0, 3600, ids...)
		s.Parts = []store.Part{{Span: span, Records: span, Sequences: seqs, Producer: 5, BaseSequence: seq, Answered: answered, Answer: 1}}
		if answered {
			s.Data, s.Header = nil, nil
		} else {
			s.Parts[0].Bytes, s.Parts[0].Batches = 1, 1
		}
		return l.append(l.db, s)[0]
	}
	for range 2 {
		r := part(true, 0, 3, 0)
		if r.Next != 2 || !slices.Equal(r.Offsets, []int64{1}) {
			t.Fatalf("%+v, want the answer 1 and nothing stored", r)
		}
	}
	r := part(false, 1, 1, 3, 9)
	l.want(r, store.SegmentStored, 2, 2, 3)
	if r := part(true, 0, 1, 9); r.Verdicts[0] != store.PartOutOfOrder {
		t.Fatalf("%+v, want a gap in the sequence refused", r)
	}
}
