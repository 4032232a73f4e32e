package store_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"queenmq/store"
	"queenmq/store/storetest"
)

// TestRunsChangeNoVerdict asks the same questions with sorted runs and after
// dropping them, over a history with ids stored twice (window 0), rows past the
// window, rows purged and rows no run covers.
func TestRunsChangeNoVerdict(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 0, 1)
	rnd := rand.New(rand.NewPCG(3, 4))
	write := func(n int) {
		t.Helper()
		for range n {
			ids := make([]int, 1+rnd.IntN(6))
			for i := range ids {
				ids[i] = rnd.IntN(250) - 10 // repeats, and now and then minted
			}
			l.append(l.db, l.segment(0, 0, ids...))
		}
	}
	build := func() {
		t.Helper()
		for {
			did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 40, 3, 2)
			if err != nil {
				t.Fatal(err)
			}
			if !did {
				return
			}
		}
	}
	write(60)
	build()
	write(60)
	build()
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '2 hours' WHERE end_offset < 100`)
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '1 day' WHERE end_offset < 40`)
	if _, _, err := l.db.PurgeSidecar(t.Context(), l.parts[0], 1000, 1<<20, 36000, 86400); err != nil {
		t.Fatal(err)
	}
	write(20) // above every run
	l.exec(`UPDATE queues SET dedup_window_seconds = 3600`)
	var levels []int32
	l.scan(`SELECT array_agg(DISTINCT level ORDER BY level) FROM log_runs`, nil, &levels)
	if len(levels) < 2 || slices.Max(levels) == 0 {
		t.Fatalf("runs of levels %v, want merged ones and others", levels)
	}
	// Only ends of segments are vouched for: a voucher inside one would be false.
	var a, b, c int64
	l.scan(`SELECT min(end_offset) FILTER (WHERE end_offset >= 120), min(end_offset) FILTER (WHERE end_offset >= 250),
	               max(end_offset) - 20 FROM log_txns`, nil, &a, &b, &c)
	l.scan(`SELECT min(end_offset) FROM log_txns WHERE end_offset >= $1`, []any{c}, &c)

	ask := func() (out []store.Dup) {
		t.Helper()
		for id := 0; id < 260; id += 2 {
			for _, verified := range []int64{-1, a, b, c} {
				s := l.segment(0, 3600, 100000, id)
				s.Verified = verified
				if verified > 0 {
					s.Suspects = []store.Suspect{{From: 60, To: 90, IDs: []int32{0, 1}}}
				}
				r := l.appendUndone(s)
				switch r.Status {
				case store.SegmentDuplicates:
					out = append(out, r.Dups...)
				case store.SegmentStored:
					out = append(out, store.Dup{Offset: -1})
				default:
					t.Fatalf("status %d", r.Status)
				}
			}
		}
		return out
	}
	with := ask()
	l.exec(`DELETE FROM log_run_blocks`)
	l.exec(`DELETE FROM log_runs`)
	without := ask()
	found := 0
	for i := range with {
		if with[i] != without[i] {
			t.Fatalf("question %d: %+v with runs, %+v without", i, with[i], without[i])
		}
		if with[i].Offset >= 0 {
			found++
		}
	}
	if found < 100 || found > len(with)-100 {
		t.Fatalf("%d of %d questions found a duplicate: too one-sided to mean anything", found, len(with))
	}
}

// appendUndone asks append for its verdict and takes back what it stored.
func (l *ledger) appendUndone(s store.Segment) store.SegmentResult {
	l.t.Helper()
	r := l.append(l.db, s)[0]
	if r.Status == store.SegmentStored {
		l.exec(`DELETE FROM log_txns WHERE partition_id = $1 AND end_offset = $2`, s.Partition, r.End)
		l.exec(`DELETE FROM log_segments WHERE partition_id = $1 AND end_offset = $2`, s.Partition, r.End)
	}
	return r
}

// TestRunsFindTheFirstAndTheLastKeys: a key is a signed number to PostgreSQL and the first
// bytes of a hash to us, and says the block it is in.
func TestRunsFindTheFirstAndTheLastKeys(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	s := l.segment(0, 3600, make([]int, 600)...) // of four blocks
	for i := range s.Hashes {
		binary.BigEndian.PutUint32(s.Hashes[i][:], uint32(i)*7158279)
		s.Hashes[i][15] = 1
	}
	for i, key := range []uint32{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		binary.BigEndian.PutUint32(s.Hashes[100*i][:], key)
		s.Hashes[100*i][15] = 2
	}
	l.append(l.db, s)
	if did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 600, 8, 1); err != nil || !did {
		t.Fatal(did, err)
	}
	// What is found now is found through the run, which covers all.
	r := l.append(l.db, store.Segment{
		Partition: s.Partition, Epoch: s.Epoch, Window: 3600, Verified: -1, IDHi: 8 << 16, IDLo: 1 << 40,
		Header: s.Header, Data: s.Data, Parts: s.Parts, Hashes: s.Hashes,
	})[0]
	if r.Status != store.SegmentDuplicates || len(r.Dups) != 600 {
		t.Fatalf("status %d, %d of 600 found", r.Status, len(r.Dups))
	}
	for _, d := range r.Dups {
		if d.Offset != int64(d.Index) {
			t.Errorf("the id stored at %d is found at %d", d.Index, d.Offset)
		}
	}
}

// TestRunsBeginAfterWhatWasPurged sorts a partition whose oldest rows, and
// those after its newest run, had been purged before anybody sorted them.
func TestRunsBeginAfterWhatWasPurged(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	next := 0
	write := func(n int) {
		t.Helper()
		for range n {
			l.append(l.db, l.segment(0, 3600, next))
			next++
		}
	}
	purgeAll := func() { // but the newest row
		t.Helper()
		l.exec(`UPDATE log_txns SET created_at = created_at - interval '2 hours'`)
		if _, _, err := l.db.PurgeSidecar(t.Context(), l.parts[0], 1000, 1<<20, 900, 86400); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		write(15)
		purgeAll()
		first := next
		write(20)
		if did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 20, 8, 1); err != nil || !did {
			t.Fatalf("round %d: built %v, %v; want a run", round, did, err)
		}
		for id := first; id < next; id++ {
			if r := l.appendUndone(l.segment(0, 3600, id)); r.Status != store.SegmentDuplicates || r.Dups[0].Offset != int64(id) {
				t.Fatalf("round %d: id %d: status %d, %+v; want a duplicate of offset %d", round, id, r.Status, r.Dups, id)
			}
		}
	}
}

// TestRunsOfTwoBuilders lets brokers sort one partition at once: whatever
// they do to each other, runs are whole and follow one another, and every id is found.
func TestRunsOfTwoBuilders(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	const rows, perRow = 60, 3
	for i := range rows {
		l.append(l.db, l.segment(0, 3600, perRow*i, perRow*i+1, perRow*i+2))
	}
	made := make(chan int, 4)
	for range cap(made) {
		db := storetest.Open(t, l.db) // each runs one step at a time
		go func() {
			n := 0
			for range rows { // false may mean that another was faster
				did, err := store.BuildRunOf(db, t.Context(), l.parts[0], 12, 3, 2)
				if err != nil {
					t.Error(err)
				}
				if did {
					n++
				}
			}
			made <- n
		}()
	}
	total := 0
	for range cap(made) {
		total += <-made
	}
	var overlapping, runs, orphans, lost int
	l.scan(`SELECT count(*) FROM log_runs a JOIN log_runs b USING (partition_id)
	         WHERE a.last_offset < b.last_offset AND b.first_offset <= a.last_offset`, nil, &overlapping)
	l.scan(`SELECT count(*) FROM log_runs`, nil, &runs)
	l.scan(`SELECT count(*) FROM log_run_blocks b WHERE NOT EXISTS
	           (SELECT FROM log_runs r WHERE r.partition_id = b.partition_id AND r.last_offset = b.last_offset)`, nil, &orphans)
	l.scan(`SELECT count(*) FROM log_runs r WHERE r.ids <> (SELECT sum(cardinality(b.entries)) FROM log_run_blocks b
	         WHERE b.partition_id = r.partition_id AND b.last_offset = r.last_offset)`, nil, &lost)
	// 15 runs of 12 ids; 5 merges of three; one of three of those.
	if total != 15+5+1 || runs != 3 || overlapping+orphans+lost != 0 {
		t.Fatalf("%d steps, %d runs left, %d overlapping, %d blocks of none, %d without all their ids; want 21, 3, 0, 0, 0",
			total, runs, overlapping, orphans, lost)
	}
	for id := range rows * perRow {
		s := l.segment(0, 3600, id)
		if r := l.appendUndone(s); r.Status != store.SegmentDuplicates || r.Dups[0].Offset != int64(id) {
			t.Fatalf("id %d: status %d, %+v", id, r.Status, r.Dups)
		}
	}
}

// TestRunsLeaveWhatIsTooWide: a run counts offsets in 32 bits. Ids further apart stay
// with the sidecar, and are found there.
func TestRunsLeaveWhatIsTooWide(t *testing.T) {
	t.Parallel()
	for _, apart := range []struct {
		by   int64
		made bool
	}{{1 << 30, true}, {1 << 31, false}, {1 << 40, false}} {
		l := newLedger(t, 3600, 1)
		l.append(l.db, l.segment(0, 3600, 1, 2, 3))
		l.append(l.db, l.segment(0, 3600, 4))
		l.exec(`UPDATE log_txns SET base_offset = base_offset + $1, end_offset = end_offset + $1 WHERE end_offset = 3`, apart.by)
		did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 4, 8, 1)
		if err != nil || did != apart.made {
			t.Errorf("%d apart: made %v, %v; want %v", apart.by, did, err, apart.made)
		}
		r := l.append(l.db, l.segment(0, 3600, 4))[0]
		if r.Status != store.SegmentDuplicates || r.Dups[0].Offset != 3+apart.by {
			t.Errorf("%d apart: status %d, %+v; want a duplicate of offset %d", apart.by, r.Status, r.Dups, 3+apart.by)
		}
	}
}

// TestFewRunsAreLeftAsTheyAre: merging writes every id once more, so it begins
// where a probe would otherwise ask many runs.
func TestFewRunsAreLeftAsTheyAre(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	levels := func(want ...int32) {
		t.Helper()
		for {
			did, err := store.BuildRunBeyond(l.db, t.Context(), l.parts[0], 2, 3)
			if err != nil {
				t.Fatal(err)
			}
			if !did {
				break
			}
		}
		var got []int32
		l.scan(`SELECT array_agg(level ORDER BY last_offset) FROM log_runs`, nil, &got)
		if !slices.Equal(got, want) {
			t.Errorf("runs of levels %v, want %v", got, want)
		}
	}
	for i := range 3 {
		l.append(l.db, l.segment(0, 3600, 2*i, 2*i+1))
	}
	levels(0, 0, 0)
	l.append(l.db, l.segment(0, 3600, 6, 7))
	levels(1, 0, 0)
	l.append(l.db, l.segment(0, 3600, 8, 9))
	levels(1, 1, 0)
}

// TestRunsAreReplacedTogetherOrNotAtAll lets one of the runs of a merge go while its
// call waits: without the others in one of its own they would hide their ids.
func TestRunsAreReplacedTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	for i := range 9 {
		l.append(l.db, l.segment(0, 3600, i))
	}
	for range 3 {
		if did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 3, 4, 1); err != nil || !did {
			t.Fatal(did, err)
		}
	}
	tx, err := l.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' run', $1))`,
		`DELETE FROM log_runs WHERE partition_id = $1 AND last_offset = 2`,
	} {
		if _, err := tx.Exec(t.Context(), sql, l.parts[0]); err != nil {
			t.Fatal(err)
		}
	}
	type answer struct {
		did bool
		err error
	}
	made := make(chan answer, 1)
	go func() {
		did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 3, 3, 1)
		made <- answer{did, err}
	}()
	for waiting := false; !waiting; {
		l.scan(`SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)`, nil, &waiting)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-made; a.err != nil || a.did {
		t.Errorf("a merge without one of its runs: %v, %v; want none", a.did, a.err)
	}
	var left []int64
	l.scan(`SELECT array_agg(last_offset ORDER BY last_offset) FROM log_runs`, nil, &left)
	if !slices.Equal(left, []int64{5, 8}) {
		t.Errorf("runs that end at %d are left, want 5 and 8", left)
	}
}

// TestRunsOnlySayWhereToLook: what a run names is a duplicate only if the sidecar has that
// id there, in the window.
func TestRunsOnlySayWhereToLook(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	for i := range 4 {
		l.append(l.db, l.segment(0, 3600, i))
	}
	if did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 4, 8, 1); err != nil || !did {
		t.Fatal(did, err)
	}
	l.exec(`UPDATE log_txns SET hashes = ARRAY[gen_random_uuid()] WHERE end_offset = 1`)
	l.exec(`DELETE FROM log_txns WHERE end_offset = 2`)
	for id, known := range []bool{true, false, false, true} {
		s := l.segment(0, 3600, 100, id)
		s.UIDs = []store.UID{{Hi: 1, Lo: 1}} // so that runs are asked, few as the rows are
		if r := l.appendUndone(s); (r.Status == store.SegmentDuplicates) != known {
			t.Errorf("id %d: status %d, %+v; want a duplicate: %v", id, r.Status, r.Dups, known)
		}
	}
}
