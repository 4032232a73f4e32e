package store_test

import (
	"slices"
	"testing"

	"queenmq/store"
)

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

// A span that reaches further back than ids are known finds nothing there.
func TestSpansEndWhereIDsAreForgotten(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	l.exec(`UPDATE queues SET dedup_max_ids = 3`)
	for i := range 6 {
		l.append(l.db, l.segment(0, 3600, i))
	}
	for id := range 6 {
		s := l.segment(0, 3600, 100, id)
		s.Verified, s.Suspects = 5, []store.Suspect{{From: 0, To: 5, IDs: []int32{1}}}
		if r := l.appendUndone(s); (r.Status == store.SegmentDuplicates) != (id >= 3) {
			t.Errorf("id %d of six: status %d, %+v; the last three are known", id, r.Status, r.Dups)
		}
	}
}
