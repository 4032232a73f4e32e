package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
