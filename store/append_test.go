package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"queenmq/store"
)

func TestAppendRepeatedCallIsStoredOnce(t *testing.T) {
	t.Parallel()
	for _, window := range []int{3600, 0} {
		t.Run(fmt.Sprint("window ", window), func(t *testing.T) {
			t.Parallel()
			l := newLedger(t, window, 1)
			s := l.segment(0, window, 1, 2, 3)
			l.want(l.append(l.db, s)[0], store.SegmentStored, 0, 2, 3)
			first := l.append(l.db, s)[0]
			l.want(first, store.SegmentAlready, 0, 2, 3)
			// A stranger's segment in between does not hide it.
			l.want(l.append(l.db, l.segment(0, window, 4))[0], store.SegmentStored, 3, 3, 4)
			l.want(l.append(l.db, s)[0], store.SegmentAlready, 0, 2, 4)
			if !slices.Equal(first.Offsets, []int64{0}) {
				t.Fatalf("part offsets %v, want [0]", first.Offsets)
			}
			var rows int
			l.scan(`SELECT count(*) FROM log_segments`, nil, &rows)
			if rows != 2 {
				t.Fatalf("%d segments, want 2", rows)
			}
		})
	}
}

func TestAppendRepeatOnAnotherIncarnationLooksThroughEverything(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 0, 1)
	s := l.segment(0, 0, 1)
	l.append(l.db, s)
	// What was known came from a log that was longer than this one.
	s.Known, s.Epoch = 1000, s.Epoch-1
	l.want(l.append(l.db, s)[0], store.SegmentAlready, 0, 0, 1)
}

func TestAppendDuplicateNamesTheLowestLiveOriginal(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 0, 1)
	first := l.segment(0, 0, 1, 2)
	l.append(l.db, first)
	l.append(l.db, l.segment(0, 0, 2)) // window 0: stored again
	l.exec(`UPDATE queues SET dedup_window_seconds = 3600`)
	res := l.append(l.db, l.segment(0, 3600, 9, 2))[0]
	l.want(res, store.SegmentDuplicates, -1, -1, 3)
	want := store.Dup{Index: 1, Offset: 1, IDHi: first.IDHi, IDLo: first.IDLo + 1}
	if len(res.Dups) != 1 || res.Dups[0] != want {
		t.Fatalf("duplicates %+v, want %+v", res.Dups, want)
	}
	t.Run("its body gone by retention", func(t *testing.T) {
		l.exec(`UPDATE log_partitions SET start_offset = 2`)
		res := l.append(l.db, l.segment(0, 3600, 2))[0]
		if want := (store.Dup{Offset: 1}); len(res.Dups) != 1 || res.Dups[0] != want {
			t.Fatalf("duplicates %+v, want the zero id at offset 1", res.Dups)
		}
	})
	t.Run("the first one past the window", func(t *testing.T) {
		l.exec(`UPDATE log_txns SET created_at = created_at - interval '3601 s' WHERE base_offset = 0`)
		res := l.append(l.db, l.segment(0, 3600, 2))[0]
		if len(res.Dups) != 1 || res.Dups[0].Offset != 2 {
			t.Fatalf("duplicates %+v, want the second occurrence at offset 2", res.Dups)
		}
		l.want(l.append(l.db, l.segment(0, 3600, 1))[0], store.SegmentStored, 3, 3, 4)
	})
}

// Among a few ids new ones are told without the probe, which costs several times what
// storing them does; whatever may be a duplicate is still the probe's to say.
func TestAppendOfNewIDsToALittlePartitionNeedsNoProbe(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	l.exec(`ALTER FUNCTION probe_1 RENAME TO probe_away`)
	l.want(l.append(l.db, l.segment(0, 3600, 1, 2))[0], store.SegmentStored, 0, 1, 2)
	l.want(l.append(l.db, l.segment(0, 3600, 3, -1, 4))[0], store.SegmentStored, 2, 4, 5) // with a minted one
	for _, ids := range [][]int{{5, 2}, {6, 6}} {
		if _, err := l.db.Append(t.Context(), []store.Segment{l.segment(0, 3600, ids...)}, true); err == nil {
			t.Errorf("ids %d were not probed", ids)
		}
	}
	many := make([]int, 4000) // a large look is the probe's: it joins by hash
	for i := range many {
		many[i] = 100 + i
	}
	if _, err := l.db.Append(t.Context(), []store.Segment{l.segment(0, 3600, many...)}, true); err == nil {
		t.Error("4,000 ids among five were compared one by one")
	}
	l.exec(`ALTER FUNCTION probe_away RENAME TO probe_1`)
	l.want(l.append(l.db, l.segment(0, 3600, many...))[0], store.SegmentStored, 5, 4004, 4005)
	if r := l.append(l.db, l.segment(0, 3600, 5, 2))[0]; len(r.Dups) != 1 || r.Dups[0].Offset != 1 {
		t.Errorf("%+v, want the second id found at offset 1", r.Dups)
	}
}

func TestAppendMintedIDGivenBackIsADuplicate(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	minted := l.segment(0, 3600, -1, -1)
	minted.Hashes = nil // all minted: no hashes are kept
	l.append(l.db, minted)
	mixed := l.segment(0, 3600, 5, -1)
	l.append(l.db, mixed)
	give := func(hi, lo int64) store.SegmentResult {
		s := l.segment(0, 3600, 77)
		s.UIDs = []store.UID{{Hi: hi, Lo: lo}}
		return l.append(l.db, s)[0]
	}
	if r := give(minted.IDHi, minted.IDLo+1); len(r.Dups) != 1 || r.Dups[0].Offset != 1 {
		t.Fatalf("second minted id: %+v, want a duplicate of offset 1", r)
	}
	if r := give(mixed.IDHi, mixed.IDLo+1); len(r.Dups) != 1 || r.Dups[0].Offset != 3 {
		t.Fatalf("minted id beside an explicit one: %+v, want a duplicate of offset 3", r)
	}
	// The place of an explicit id has no minted one.
	if r := give(mixed.IDHi, mixed.IDLo); r.Status != store.SegmentStored {
		t.Fatalf("id of a place with an explicit id: %+v, want stored", r)
	}
}

// A segment without the messages that seem to be stored is written only when
// those, and no others, are.
func TestAppendWithoutWhatSeemsStored(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	first := l.segment(0, 3600, 1, 2)
	l.append(l.db, first)
	f := func(status store.SegmentStatus, dups, withheld []store.Dup, ids []int, held ...int) store.Segment {
		t.Helper()
		s := l.segment(0, 3600, ids...)
		for _, id := range held {
			s.Withheld = append(s.Withheld, hash(id))
		}
		r := l.append(l.db, s)[0]
		if r.Status != status || !slices.Equal(r.Dups, dups) || !slices.Equal(r.Withheld, withheld) {
			t.Errorf("%d without %d: status %d, duplicates %v, withheld %v; want %d, %v, %v",
				ids, held, r.Status, r.Dups, r.Withheld, status, dups, withheld)
		}
		return s
	}
	one := store.Dup{Offset: 0, IDHi: first.IDHi, IDLo: first.IDLo}
	two := store.Dup{Index: 1, Offset: 1, IDHi: first.IDHi, IDLo: first.IDLo + 1}
	f(store.SegmentDuplicates, nil, []store.Dup{one}, []int{3, 4}, 1, 5)
	f(store.SegmentDuplicates, nil, nil, []int{3, 4}, 5)
	f(store.SegmentDuplicates, []store.Dup{two}, []store.Dup{one}, []int{3, 2}, 1)
	f(store.SegmentDuplicates, []store.Dup{two}, nil, []int{3, 2}, 5)
	s := f(store.SegmentStored, nil, []store.Dup{one, two}, []int{3, 4}, 1, 2)
	l.want(l.append(l.db, s)[0], store.SegmentAlready, 2, 3, 4)
	f(store.SegmentStored, nil, []store.Dup{one}, []int{-1}, 1)
	var n int
	l.scan(`SELECT count(*) FROM log_txns`, nil, &n)
	if n != 3 {
		t.Errorf("%d rows, want three", n)
	}
}

func TestAppendHashRepeatedInsideASegmentWritesNothing(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	res := l.append(l.db, l.segment(0, 3600, 1, 2, 1))[0]
	l.want(res, store.SegmentDuplicates, -1, -1, 0)
	if want := (store.Dup{Index: 2, Offset: 0}); len(res.Dups) != 1 || res.Dups[0] != want {
		t.Fatalf("duplicates %+v, want %+v", res.Dups, want)
	}
}

func TestAppendSaysWhyNothingWasWritten(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 3)
	res := l.append(l.db, l.segment(0, 60, 1))[0]
	l.want(res, store.SegmentWindowChanged, -1, -1, 0)
	if res.WindowSeconds != 3600 {
		t.Fatalf("window %d, want the stored 3600", res.WindowSeconds)
	}
	tx, err := l.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions WHERE id = $1 FOR UPDATE`, l.parts[1]); err != nil {
		t.Fatal(err)
	}
	got, err := l.db.Append(t.Context(), []store.Segment{l.segment(0, 3600, 1), l.segment(1, 3600, 1), l.segment(2, 3600, 1)}, false)
	if err != nil {
		t.Fatal(err)
	}
	l.want(got[0], store.SegmentStored, 0, 0, 1)
	l.want(got[1], store.SegmentBusy, -1, -1, -1)
	l.want(got[2], store.SegmentStored, 0, 0, 1)
	l.exec(`UPDATE queues SET deleted_at = now()`)
	l.want(l.append(l.db, l.segment(0, 3600, 5))[0], store.SegmentGone, -1, -1, -1)
}

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

func TestAppendIDsOwnTimeToLiveShortensTheWindow(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	s := l.segment(0, 3600, 1, 2)
	s.TTLs = []int64{60_000, 0}
	l.append(l.db, s)
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '61 s'`)
	for _, runs := range []bool{false, true} {
		if runs {
			if did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 1, 8, 1); err != nil || !did {
				t.Fatal(did, err)
			}
		}
		if r := l.appendUndone(l.segment(0, 3600, 2)); r.Status != store.SegmentDuplicates {
			t.Fatalf("runs %v: %+v, want a duplicate: it has the queue's window", runs, r)
		}
		if r := l.appendUndone(l.segment(0, 3600, 1)); r.Status != store.SegmentStored {
			t.Fatalf("runs %v: %+v, want stored: its minute is over", runs, r)
		}
	}
}

func TestAppendKnowsIDsOnlySoFarBack(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	l.exec(`UPDATE queues SET dedup_max_ids = 3`)
	for i := range 5 {
		l.append(l.db, l.segment(0, 3600, i))
	}
	if r := l.append(l.db, l.segment(0, 3600, 2))[0]; r.Status != store.SegmentDuplicates || r.Dups[0].Offset != 2 {
		t.Fatalf("%+v, want a duplicate: three offsets back", r)
	}
	if r := l.append(l.db, l.segment(0, 3600, 1))[0]; r.Status != store.SegmentStored {
		t.Fatalf("%+v, want stored: four offsets back", r)
	}
}

func TestAppendCallThatLostItsAnswerIsUnknownAndRepeatable(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 0, 1)
	s := l.segment(0, 0, 1)
	// The call waits for the row until its caller gives up; the server goes on.
	tx, err := l.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = l.db.Append(ctx, []store.Segment{s}, true)
	if !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Fatalf("error %v, want outcome unknown", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r := l.append(l.db, s)[0]; r.Base != 0 || r.Next != 1 {
			t.Fatalf("repeat answered %+v, want base 0 and next 1", r)
		}
	}
}
