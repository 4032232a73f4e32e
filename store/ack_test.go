package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"queenmq/store"
)

// ack completes offsets, gives the last back with retry, and checks what it answers.
func (c consumer) ack(partition int64, lease uuid.UUID, retry bool, wantNext int64, wantLive bool, offsets ...int64) {
	c.t.Helper()
	a := store.CursorAck{Group: "g", Partition: partition, Lease: lease, Offsets: offsets, Outcomes: make([]store.Outcome, len(offsets))}
	if retry {
		a.Offsets, a.Outcomes = append(a.Offsets, c.position(partition)), append(a.Outcomes, store.GivenBack)
	}
	if v := c.acked(a); v.Err != nil || v.Next != wantNext || v.Live != wantLive {
		c.t.Errorf("Ack(%v) = %+v; want %d, %v", offsets, v, wantNext, wantLive)
	}
}

// acked makes one call of one ack.
func (c consumer) acked(a store.CursorAck) store.Acked {
	c.t.Helper()
	if a.Group == "" {
		a.Group = "g"
	}
	if a.Outcomes == nil {
		a.Outcomes = make([]store.Outcome, len(a.Offsets))
	}
	v, err := c.db.Ack(c.t.Context(), uuid.Must(uuid.NewV7()), []store.CursorAck{a})
	if err != nil {
		c.t.Fatal(err)
	}
	return v[0]
}

func TestAckMovesPositionToFirstNotCompleted(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 1)
	fill(t, c.pool, p[0], stored{records: 10, size: 1})
	r := store.ClaimRequest{Partitions: p, Batch: 5}
	_, lease, _ := c.claim(r)
	c.ack(p[0], lease, false, 0, true, 2, 4)
	c.ack(p[0], lease, false, 1, true, 0, 0)
	c.ack(p[0], lease, false, 1, true, 0) // completed before: nothing moves back
	// Not looked for: the lease was over for who asked, whatever it is by now.
	if v := c.acked(store.CursorAck{Partition: p[0], Lease: lease, Offsets: []int64{3, store.OffsetUnderLostLease}}); !errors.Is(v.Err, store.ErrLeaseLost) {
		t.Errorf("Ack of what was not looked for: %v, want ErrLeaseLost", v.Err)
	}
	if _, _, ok := c.claim(r); ok {
		t.Error("claimed under a live lease")
	}
	c.ack(p[0], lease, true, 1, false) // retry gives back what is left
	got, lease, ok := c.claim(r)
	c.want(got, ok, p[0], 1, 5, 9)
	if !slices.Equal(got.Acked, []int64{2, 4}) {
		t.Errorf("completed ahead are %v, want 2 and 4", got.Acked)
	}
	c.ack(p[0], lease, false, 3, true, 1)
	c.ack(p[0], uuid.Nil, false, 5, true, 3)
	c.ack(p[0], lease, false, 6, false, 5) // all done: the lease ends
	got, _, ok = c.claim(r)
	c.want(got, ok, p[0], 6, 9, 9)
}

func TestAckIsGuardedByItsLease(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 2)
	fill(t, c.pool, p[0], stored{records: 10, size: 1})
	r := store.ClaimRequest{Partitions: p, Batch: 2}
	lost := func(lease uuid.UUID) {
		t.Helper()
		before := c.position(p[0])
		if v := c.acked(store.CursorAck{Partition: p[0], Lease: lease, Offsets: []int64{before}}); !errors.Is(v.Err, store.ErrLeaseLost) {
			t.Errorf("Ack: %v, want ErrLeaseLost", v.Err)
		}
		if after := c.position(p[0]); after != before {
			t.Errorf("position moved from %d to %d", before, after)
		}
	}
	_, first, _ := c.claim(r)
	c.exec(`UPDATE cursors SET lease_until = clock_timestamp()`)
	lost(first)
	_, second, ok := c.claim(r)
	if !ok {
		t.Fatal("nothing to claim after the lease ended")
	}
	lost(first)
	c.ack(p[0], second, false, 1, true, 0)

	t.Run("a Kafka commit voids it", func(t *testing.T) {
		if _, err := c.db.CommitCursors(t.Context(), "g", store.Fence{}, []store.CursorRow{{Partition: p[0], Offset: 5}}, true); err != nil {
			t.Fatal(err)
		}
		lost(second)
		got, _, ok := c.claim(r)
		c.want(got, ok, p[0], 5, 6, 9)
	})
	if v := c.acked(store.CursorAck{Partition: p[1], Offsets: []int64{0}}); !errors.Is(v.Err, store.ErrNotFound) {
		t.Errorf("Ack without a position: %v, want ErrNotFound", v.Err)
	}
	var far []int64
	for o := range int64(store.AckedMax) + 1 {
		far = append(far, 100+o)
	}
	if v := c.acked(store.CursorAck{Partition: p[0], Offsets: far}); !errors.Is(v.Err, store.ErrTooManyAcked) {
		t.Errorf("Ack of %d offsets ahead: %v, want ErrTooManyAcked", len(far), v.Err)
	}
}

func TestResolveIDsFindsLowestAtOrAbove(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 2)
	h := func(n byte) (id [16]byte) { id[15] = n; return id }
	row := func(partition, base, end, hi, lo int64, hashes ...[16]byte) {
		c.exec(`INSERT INTO log_txns VALUES ($1, $3, $2, now(), 0, $4, $5, $6)`, partition, base, end, hi, lo, append([][16]byte{}, hashes...))
	}
	row(p[0], 0, 2, 7, 100, h(1), h(0), h(2)) // a minted id between two explicit ones
	row(p[0], 3, 5, 8, 100)                   // all minted
	row(p[0], 6, 7, 9, 100, h(1), h(3))
	row(p[1], 0, 0, 10, 100, h(4))
	byHash, byUID, err := c.db.ResolveIDs(t.Context(), p[0], 0, [][16]byte{h(1), h(4), h(3)},
		[]store.UID{{Hi: 8, Lo: 102}, {Hi: 7, Lo: 101}, {Hi: 7, Lo: 100}, {Hi: 8, Lo: 103}})
	if err != nil || !slices.Equal(byHash, []int64{0, -1, 7}) || !slices.Equal(byUID, []int64{5, 1, -1, -1}) {
		t.Errorf("ResolveIDs = %v, %v, %v", byHash, byUID, err)
	}
	byHash, byUID, err = c.db.ResolveIDs(t.Context(), p[0], 2, [][16]byte{h(1), h(2)}, []store.UID{{Hi: 7, Lo: 101}})
	if err != nil || !slices.Equal(byHash, []int64{6, 2}) || !slices.Equal(byUID, []int64{-1}) {
		t.Errorf("ResolveIDs from 2 = %v, %v, %v", byHash, byUID, err)
	}
}

// TestFailuresAreCountedUntilTheMessageIsADeadLetter: retries and expiries are free.
func TestFailuresAreCountedUntilTheMessageIsADeadLetter(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 1)
	fill(t, c.pool, p[0], stored{records: 3, size: 1}, stored{records: 3, size: 1})
	c.exec(`UPDATE queues SET retry_limit = 2`)
	r := store.ClaimRequest{Partitions: p, Batch: 6}
	f := func(next int64, live bool, dead []int64, offsets []int64, outcomes ...store.Outcome) {
		t.Helper()
		_, lease, ok := c.claim(r)
		if !ok {
			t.Fatal("nothing to claim")
		}
		v := c.acked(store.CursorAck{Partition: p[0], Lease: lease, Offsets: offsets, Outcomes: outcomes, Reasons: make([]string, len(offsets))})
		if v.Err != nil || v.Next != next || v.Live != live || !slices.Equal(v.Dead, dead) {
			t.Errorf("%v %v: %+v; want position %d, live %v, dead %v", offsets, outcomes, v, next, live, dead)
		}
		c.exec(`UPDATE cursors SET lease_until = clock_timestamp()`) // what is left runs out
	}
	const completed, failed, back, dead = store.Completed, store.Failed, store.GivenBack, store.Dead
	f(0, false, nil, []int64{1, 2, 3}, failed, completed, failed) // 1: once, 3: once
	f(0, false, nil, []int64{1}, back)
	f(0, false, nil, []int64{1, 1, 2}, failed, failed, failed) // 1: twice; 2 is done
	f(1, true, nil, []int64{0}, completed)
	f(3, true, []int64{1}, []int64{1}, failed) // the third time is beyond the limit
	f(3, false, nil, []int64{3, 4}, failed, completed)
	f(5, true, []int64{3}, []int64{3, 4}, dead, back)
	if n := query[int](t, c.pool, `SELECT count(*) FROM retries`); n != 0 {
		t.Errorf("%d counts are kept of what is done", n)
	}
	if n := query[int](t, c.pool, `SELECT failing FROM cursors`); n != 0 {
		t.Errorf("%d are failing, all are done", n)
	}
	f(6, false, []int64{5}, []int64{5}, dead)
	got := query[string](t, c.pool, `SELECT string_agg(record_offset || ':' || failures || ':' || segment_end, ' ' ORDER BY id) FROM dead_letters`)
	if got != "1:3:2 3:2:5 5:0:5" {
		t.Errorf("dead letters %s", got)
	}
	// Retention of the log takes none of them.
	if _, err := c.db.RaiseLogStart(t.Context(), p[0], 6); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.db.PurgeSegments(t.Context(), p[0], 10, 1<<20); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, c.pool, `SELECT count(*) FROM dead_segments d JOIN dead_letters l ON l.segment_end = d.end_offset`); n != 3 {
		t.Errorf("%d dead letters have their segment, want 3", n)
	}
}

// TestAckRepeatedCountsOnce: a call whose answer was lost is sent again.
func TestAckRepeatedCountsOnce(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 2)
	fill(t, c.pool, p[0], stored{records: 3, size: 1})
	fill(t, c.pool, p[1], stored{records: 3, size: 1})
	c.subscribe("g", store.Subscription{})
	_, _, lease := c.claimAll(store.ClaimRequest{Partitions: p, Most: 2, Batch: 6})
	acks := []store.CursorAck{
		{Group: "g", Partition: p[0], Lease: lease, Offsets: []int64{0, 1}, Outcomes: []store.Outcome{store.Completed, store.Failed}},
		{Group: "g", Partition: p[1], Lease: uuid.New(), Offsets: []int64{0}, Outcomes: []store.Outcome{store.Completed}},
	}
	call := uuid.Must(uuid.NewV7())
	for range 3 {
		v, err := c.db.Ack(t.Context(), call, acks)
		if err != nil || v[0].Err != nil || v[0].Next != 1 || v[0].Live || !errors.Is(v[1].Err, store.ErrLeaseLost) {
			t.Fatalf("%+v, %v; want position 1 and a lost lease", v, err)
		}
	}
	if n := query[int](t, c.pool, `SELECT sum(failures) FROM retries`); n != 1 {
		t.Errorf("the failure counts %d times", n)
	}
}
