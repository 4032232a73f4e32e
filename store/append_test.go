package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
	"queenmq/store/storetest"
)

// ledger is a migrated schema with one queue and some partitions.
type ledger struct {
	t     *testing.T
	db    *store.DB
	pool  *pgxpool.Pool
	queue int64
	parts []int64
	ids   atomic.Int64
}

func newLedger(t *testing.T, window, partitions int) *ledger {
	t.Helper()
	l := &ledger{t: t, db: storetest.New(t)}
	l.pool = storetest.Pool(t, l.db)
	l.scan(`INSERT INTO queues (name, fixed, partitions, dedup_window_seconds) VALUES ('q', false, $1, $2) RETURNING id`,
		[]any{partitions, window}, &l.queue)
	for i := range partitions {
		var id int64
		l.scan(`INSERT INTO log_partitions (queue_id, number, name) VALUES ($1, $2, $3) RETURNING id`,
			[]any{l.queue, i, fmt.Sprint(i)}, &id)
		l.parts = append(l.parts, id)
	}
	return l
}

func (l *ledger) scan(sql string, args []any, dst ...any) {
	l.t.Helper()
	if err := l.pool.QueryRow(l.t.Context(), sql, args...).Scan(dst...); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

func (l *ledger) exec(sql string, args ...any) {
	l.t.Helper()
	if _, err := l.pool.Exec(l.t.Context(), sql, args...); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

// hash is the test's own id → hash; the store does not care how it is made.
func hash(id int) (h [16]byte) {
	binary.BigEndian.PutUint64(h[8:], uint64(id)+1)
	return h
}

// ids makes a segment of one native part with these ids; an id below 0 is minted.
func (l *ledger) segment(part, window int, ids ...int) store.Segment {
	n := int32(len(ids))
	s := store.Segment{
		Partition: l.parts[part], Epoch: l.db.Incarnation().Epoch, Window: int32(window), Verified: -1,
		IDHi: 7 << 16, IDLo: l.ids.Add(1) << 20,
		Header: make([]byte, 4+32), Data: []byte(strings.Repeat("x", len(ids))),
		Parts: []store.Part{{Bytes: n, Batches: 1, Span: n, Records: n, Producer: -1}},
	}
	for _, id := range ids {
		var h [16]byte
		if id >= 0 {
			h = hash(id)
		}
		s.Hashes = append(s.Hashes, h)
	}
	return s
}

func (l *ledger) append(db *store.DB, segs ...store.Segment) []store.SegmentResult {
	l.t.Helper()
	res, err := db.Append(l.t.Context(), segs, true)
	if err != nil {
		l.t.Fatal(err)
	}
	return res
}

func (l *ledger) want(got store.SegmentResult, status store.SegmentStatus, base, end, next int64) {
	l.t.Helper()
	if got.Status != status || got.Base != base || got.End != end || got.Next != next {
		l.t.Fatalf("status %d, segment %d–%d, next %d; want status %d, segment %d–%d, next %d",
			got.Status, got.Base, got.End, got.Next, status, base, end, next)
	}
}

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

// race sends the same ids through two databases at once, rounds times, and
// counts ids that were stored more than once.
func (l *ledger) race(rounds int) (repeated int) {
	l.t.Helper()
	dbs := []*store.DB{l.db, storetest.Open(l.t, l.db)}
	for r := range rounds {
		var wg sync.WaitGroup
		start := make(chan struct{})
		for w := range 8 {
			wg.Go(func() {
				<-start
				for i := range 6 {
					s := l.segment(0, 3600, 1000*r+i)
					if _, err := dbs[w%2].Append(l.t.Context(), []store.Segment{s}, true); err != nil {
						l.t.Error(err)
					}
				}
			})
		}
		close(start)
		wg.Wait()
	}
	l.scan(`SELECT count(*) - count(DISTINCT h) FROM log_txns, unnest(hashes) h`, nil, &repeated)
	return repeated
}

func TestAppendConcurrentIDsAreStoredOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	if n := l.race(20); n != 0 {
		t.Fatalf("%d ids were stored more than once", n)
	}
	var rows, end int64
	l.scan(`SELECT count(*), max(end_offset) FROM log_segments`, nil, &rows, &end)
	if rows != 120 || end != 119 {
		t.Fatalf("%d segments up to offset %d, want 120 up to 119", rows, end)
	}
}

// TestAppendRaceCatchesAProbeInTheLockingStatement plants the mistake the
// function is built around: a probe in the statement that takes the lock sees
// a snapshot from before it waited.
func TestAppendRaceCatchesAProbeInTheLockingStatement(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	l.mutate("append_1", [][2]string{
		{"ORDER BY p.id FOR NO KEY UPDATE);", "ORDER BY p.id);"},
		{"FROM probe_1(v_pid, v_from,", "FROM (SELECT p.id FROM log_partitions p WHERE p.id = v_pid FOR NO KEY UPDATE) held CROSS JOIN LATERAL probe_1(held.id, v_from,"},
		{"IF v_spans OR v_probe THEN", "IF true THEN"},
		{"WHERE v_probe\n", "WHERE true\n"},
		// The rest of the function is left as right as it can be.
		{"            -- 5 Write.\n", `
			SELECT t.end_offset + 1, t.created_at INTO next_offset, v_newest FROM log_txns t
			 WHERE t.partition_id = v_pid ORDER BY t.end_offset DESC LIMIT 1;
			next_offset := COALESCE(next_offset, 0);
			v_newest := COALESCE(v_newest, '-infinity');
			v_at := next_offset + p_parts[s];
`},
	})
	for _, inner := range []string{"probe_1", "rows_probe_1", "runs_probe_1"} { // one snapshot for all of it
		l.mutate(inner, [][2]string{{"LANGUAGE plpgsql VOLATILE", "LANGUAGE plpgsql STABLE"}})
	}
	for range 30 {
		if l.race(3) > 0 {
			return
		}
	}
	t.Fatal("the mutant stored no id twice: this race has no teeth")
}

// mutate replaces a function by its text with replacements made in it.
func (l *ledger) mutate(name string, replace [][2]string) {
	l.t.Helper()
	b, err := os.ReadFile("schema/functions/" + name + ".sql")
	if err != nil {
		l.t.Fatal(err)
	}
	text := string(b)
	for _, r := range replace {
		if !strings.Contains(text, r[0]) {
			l.t.Fatalf("%s has no %q any more", name, r[0])
		}
		text = strings.ReplaceAll(text, r[0], r[1])
	}
	l.exec(strings.Replace(text, "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1))
}

func TestAppendBundlesInAnyOverlapDoNotDeadlock(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 6)
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 15 {
				var segs []store.Segment
				for p := range l.parts {
					if (p+w+i)%3 != 0 {
						segs = append(segs, l.segment(p, 3600, 1000*w+i))
					}
				}
				if _, err := l.db.Append(t.Context(), segs, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var stored int
	l.scan(`SELECT count(*) FROM log_segments`, nil, &stored)
	if stored != 6*15*4 {
		t.Fatalf("%d segments, want %d", stored, 6*15*4)
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
