package store_test

import (
	"slices"
	"testing"

	"queenmq/store"
)

func TestAppendProbesOnlyAboveVerifiedAndInSuspectSpans(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	for i := range 4 {
		l.append(l.db, l.segment(0, 3600, i))
	}
	s := l.segment(0, 3600, 1)
	s.Suspects = []store.Suspect{{From: 1, To: 1, IDs: []int32{0}}}
	s.Verified = 3
	if r := l.append(l.db, s)[0]; len(r.Dups) != 1 || r.Dups[0].Offset != 1 {
		t.Fatalf("%+v, want a duplicate of offset 1 found in the span", r)
	}
	s = l.segment(0, 3600, 3)
	s.Verified = 2
	if r := l.append(l.db, s)[0]; len(r.Dups) != 1 || r.Dups[0].Offset != 3 {
		t.Fatalf("%+v, want a duplicate of offset 3 found above verified", r)
	}
	// A voucher is believed: that is what makes it cheap, and why it must be sound.
	s = l.segment(0, 3600, 0)
	s.Verified = 3
	l.want(l.append(l.db, s)[0], store.SegmentStored, 4, 4, 5)
}

// TestSpanReadsItsPartOfRows looks for every id of three rows through spans that
// begin and end inside rows: what lies in a span is found, at its place and by its own
// time to live, and what does not is taken for vouched for.
func TestSpanReadsItsPartOfRows(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	ids := func(from, n int) (out []int) {
		for i := range n {
			out = append(out, from+i)
		}
		return out
	}
	rows := make([]store.SegmentResult, 3)
	bases := make([]store.Segment, 3)
	for i := range rows {
		bases[i] = l.segment(0, 3600, ids(10*i, 10)...)
		if i == 1 {
			bases[i].TTLs = make([]int64, 10)
			bases[i].TTLs[4] = 1 // of id 14: over at once
		}
		rows[i] = l.append(l.db, bases[i])[0]
	}
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '1 minute'`)
	for _, spans := range [][]store.Suspect{
		{{From: 12, To: 16}},
		{{From: 10, To: 19}},
		{{From: 8, To: 11}},
		{{From: 3, To: 25}},
		{{From: 0, To: 0}, {From: 13, To: 14}, {From: 29, To: 29}},
		{{From: 17, To: 18}, {From: 19, To: 21}},
	} {
		for id := range 30 {
			s := l.segment(0, 3600, 1000, id)
			for i := range spans {
				spans[i].IDs = []int32{1}
			}
			s.Verified, s.Suspects = 29, spans
			r := l.appendUndone(s)
			in := slices.ContainsFunc(spans, func(sp store.Suspect) bool { return sp.From <= int64(id) && int64(id) <= sp.To })
			if !in || id == 14 {
				if r.Status != store.SegmentStored {
					t.Errorf("%v, id %d: status %d, want stored", spans, id, r.Status)
				}
				continue
			}
			row := bases[id/10]
			want := store.Dup{Index: 1, Offset: int64(id), IDHi: row.IDHi, IDLo: row.IDLo + int64(id%10)}
			if r.Status != store.SegmentDuplicates || len(r.Dups) != 1 || r.Dups[0] != want {
				t.Errorf("%v, id %d: status %d, %+v; want %+v", spans, id, r.Status, r.Dups, want)
			}
		}
	}
}

// What a segment holds twice, stored while the window was 0, is found at its first
// live place, within a span and over several; a place with a minted id is nobody's.
func TestAppendFindsTheFirstLivePlaceInSuspectSpans(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 0, 1)
	l.append(l.db, l.segment(0, 0, 5, -1, 6, 5))
	brief := l.segment(0, 0, 7, 7, 6)
	brief.TTLs = []int64{1, 0, 0}
	l.append(l.db, brief)
	l.append(l.db, l.segment(0, 0, 8, 5))
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '1 minute'`)
	l.exec(`UPDATE queues SET dedup_window_seconds = 3600`)
	f := func(id int, want int64, spans ...store.Suspect) {
		t.Helper()
		s := l.segment(0, 3600, 1000, id, -1)
		for i := range spans {
			spans[i].IDs = []int32{2, 1, 0} // not in order, the minted one with them
		}
		s.Verified, s.Suspects = 8, spans
		r := l.appendUndone(s)
		if want < 0 && r.Status == store.SegmentStored {
			return
		}
		if r.Status != store.SegmentDuplicates || len(r.Dups) != 1 || r.Dups[0].Index != 1 || r.Dups[0].Offset != want {
			t.Errorf("id %d in %v: status %d, %+v; want offset %d", id, spans, r.Status, r.Dups, want)
		}
	}
	f(5, 0, store.Suspect{From: 0, To: 3})
	f(5, 3, store.Suspect{From: 1, To: 3})
	f(5, 3, store.Suspect{From: 3, To: 3}, store.Suspect{From: 7, To: 8})
	f(5, 8, store.Suspect{From: 4, To: 8})
	f(6, 2, store.Suspect{From: 1, To: 2}, store.Suspect{From: 5, To: 6})
	f(7, 5, store.Suspect{From: 4, To: 6}) // the first is over
	f(7, 5, store.Suspect{From: 0, To: 8})
	f(7, -1, store.Suspect{From: 4, To: 4})
	f(9, -1, store.Suspect{From: 0, To: 8})
}

// What a memory suspects is not all that is looked at: everything above what it vouches
// for is too, in the same call, for the ids that no span may hold as well.
func TestAppendLooksInSpansAndAboveVerifiedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	for i := range 6 {
		l.append(l.db, l.segment(0, 3600, i))
	}
	f := func(want []int64, verified int64, of []int32, ids ...int) {
		t.Helper()
		s := l.segment(0, 3600, ids...)
		s.Verified, s.Suspects = verified, []store.Suspect{{From: 1, To: 1, IDs: of}}
		r := l.appendUndone(s)
		got := []int64{}
		for _, d := range r.Dups {
			got = append(got, d.Offset)
		}
		if !slices.Equal(got, want) {
			t.Errorf("ids %d, verified %d: found at %d, want %d", ids, verified, got, want)
		}
	}
	f([]int64{1, 5}, 3, []int32{0}, 1, 5)
	f([]int64{4, 1}, 3, []int32{1}, 4, 1)
	f([]int64{4}, 3, []int32{1}, 4, 100) // a suspect in vain
	f([]int64{5}, 4, []int32{1}, 4, 5)   // 4 is vouched for
	f([]int64{1}, 5, []int32{0}, 1, 100)
}

// Below txns_start nothing is known, whatever still lies there: rows, spans, runs and
// minted ids end at the same offset.
func TestAppendLooksAtNothingThatWasPurged(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	rows := make([]store.Segment, 4)
	for i := range rows {
		rows[i] = l.segment(0, 3600, i, -1)
		l.append(l.db, rows[i])
	}
	f := func(how string, change func(*store.Segment)) {
		t.Helper()
		for id := range rows {
			s := l.segment(0, 3600, 100, id)
			change(&s)
			if r := l.appendUndone(s); (r.Status == store.SegmentDuplicates) != (id >= 2) {
				t.Errorf("%s, id %d: status %d, %+v; only 2 and 3 are known", how, id, r.Status, r.Dups)
			}
		}
	}
	minted := func() {
		t.Helper()
		for i := range rows {
			s := l.segment(0, 3600, 77)
			s.UIDs = []store.UID{{Hi: rows[i].IDHi, Lo: rows[i].IDLo + 1}}
			if r := l.appendUndone(s); (r.Status == store.SegmentDuplicates) != (i >= 2) {
				t.Errorf("minted id of row %d: status %d, %+v; only 2 and 3 are known", i, r.Status, r.Dups)
			}
		}
	}
	l.exec(`UPDATE log_partitions SET txns_start = 4`)
	minted()
	f("rows", func(*store.Segment) {})
	f("spans", func(s *store.Segment) {
		s.Verified, s.Suspects = 7, []store.Suspect{{From: 0, To: 7, IDs: []int32{1}}}
	})
	if did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 4, 8, 1); err != nil || !did {
		t.Fatal(did, err)
	}
	f("runs", func(*store.Segment) {})
}
