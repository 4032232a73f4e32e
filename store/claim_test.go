package store_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
	"queenmq/store/storetest"
)

// consumer is a native group on one database.
type consumer struct {
	t    *testing.T
	db   *store.DB
	pool *pgxpool.Pool
}

func newConsumer(t *testing.T) consumer {
	db := storetest.New(t)
	return consumer{t, db, storetest.Pool(t, db)}
}

// claim asks for a batch and returns it with its lease; ok is false when nothing was there.
func (c consumer) claim(r store.ClaimRequest) (store.Claim, uuid.UUID, bool) {
	c.t.Helper()
	r.Lease = uuid.New()
	if r.LeaseFor == 0 {
		r.LeaseFor = time.Hour
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = 1 << 20
	}
	if r.Group == "" {
		r.Group = "g"
	}
	got, err := c.db.Claim(c.t.Context(), r)
	if errors.Is(err, store.ErrNotFound) {
		return got, r.Lease, false
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return got, r.Lease, true
}

// want checks a claim: its partition, its offsets and the ends of its segments.
func (c consumer) want(got store.Claim, ok bool, partition, next, end int64, ends ...int64) {
	c.t.Helper()
	var gotEnds []int64
	for _, s := range got.Segments {
		gotEnds = append(gotEnds, s.End)
	}
	if !ok || got.Partition != partition || got.Next != next || got.End != end || !slices.Equal(gotEnds, ends) {
		c.t.Errorf("claimed %v: offsets %d to %d of partition %d in segments %v; want %d to %d of %d in %v",
			ok, got.Next, got.End, got.Partition, gotEnds, next, end, partition, ends)
	}
}

// ack completes offsets and checks what it answers.
func (c consumer) ack(partition int64, lease uuid.UUID, retry bool, wantNext int64, wantLive bool, offsets ...int64) {
	c.t.Helper()
	next, live, err := c.db.Ack(c.t.Context(), "g", partition, lease, offsets, retry)
	if err != nil || next != wantNext || live != wantLive {
		c.t.Errorf("Ack(%v) = %d, %v, %v; want %d, %v", offsets, next, live, err, wantNext, wantLive)
	}
}

func (c consumer) exec(sql string, args ...any) {
	c.t.Helper()
	if _, err := c.pool.Exec(c.t.Context(), sql, args...); err != nil {
		c.t.Fatal(err)
	}
}

func TestClaimTakesFirstPartitionWithSomethingFree(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 4)
	fill(t, c.pool, p[1], stored{records: 3, size: 10}, stored{records: 3, size: 10}, stored{records: 3, size: 10})
	fill(t, c.pool, p[2], stored{records: 1, size: 10})
	all := store.ClaimRequest{Partitions: []int64{1 << 40, p[0], p[1], p[2]}, Batch: 5}
	got, _, ok := c.claim(all)
	c.want(got, ok, p[1], 0, 4, 2, 5)
	got, _, ok = c.claim(all)
	c.want(got, ok, p[2], 0, 0, 0)
	if got, _, ok = c.claim(all); ok {
		t.Errorf("claimed %+v under a live lease", got)
	}
	all.Group = "other" // has its own position
	got, _, ok = c.claim(all)
	c.want(got, ok, p[1], 0, 4, 2, 5)
	if _, _, ok := c.claim(store.ClaimRequest{Batch: 1}); ok {
		t.Error("claimed something of no partition")
	}
}

func TestClaimBoundsBatchByOffsetsAndBytes(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 1)
	fill(t, c.pool, p[0], stored{records: 3, size: 100}, stored{records: 3, size: 100}, stored{records: 3, size: 100})
	for i, f := range []struct {
		batch, bytes int
		end          int64
		ends         []int64
	}{
		{1, 1, 0, []int64{2}},
		{3, 1000, 2, []int64{2}},
		{4, 1000, 3, []int64{2, 5}},
		{100, 1000, 8, []int64{2, 5, 8}},
		{100, 200, 5, []int64{2, 5}},
		{100, 199, 2, []int64{2}},
		{5, 199, 2, []int64{2}},
	} {
		got, _, ok := c.claim(store.ClaimRequest{Group: string(rune('a' + i)), Partitions: p, Batch: f.batch, MaxBytes: f.bytes})
		c.want(got, ok, p[0], 0, f.end, f.ends...)
	}
	// Below the log start nothing is given.
	c.exec(`UPDATE log_partitions SET start_offset = 4`)
	got, _, ok := c.claim(store.ClaimRequest{Group: "a2", Partitions: p, Batch: 2})
	c.want(got, ok, p[0], 4, 5, 5)
	c.exec(`UPDATE cursors SET lease_until = now()`)
	got, _, ok = c.claim(store.ClaimRequest{Group: "a", Partitions: p, Batch: 2})
	c.want(got, ok, p[0], 4, 5, 5)
}

func TestClaimFromEndRemembersWhenItBegan(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 2)
	for range 5 {
		fill(t, c.pool, p[0], stored{records: 2, size: 1})
	}
	for range 3 {
		if got, _, ok := c.claim(store.ClaimRequest{Partitions: p, Batch: 10, FromEnd: true}); ok {
			t.Fatalf("claimed %+v stored before", got)
		}
	}
	fill(t, c.pool, p[0], stored{records: 1, size: 1}, stored{records: 1, size: 1})
	fill(t, c.pool, p[1], stored{records: 3, size: 1}) // of before there was nothing: it starts at 0
	got, _, ok := c.claim(store.ClaimRequest{Partitions: p, Batch: 10})
	c.want(got, ok, p[0], 10, 11, 10, 11)
	got, _, ok = c.claim(store.ClaimRequest{Partitions: p, Batch: 10, FromEnd: true})
	c.want(got, ok, p[1], 0, 2, 2)
	got, _, ok = c.claim(store.ClaimRequest{Partitions: p, Batch: 1, Group: "another"})
	c.want(got, ok, p[0], 0, 0, 1)
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
		if _, _, err := c.db.Ack(t.Context(), "g", p[0], lease, []int64{before}, false); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("Ack: %v, want ErrLeaseLost", err)
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
	if _, _, err := c.db.Ack(t.Context(), "g", p[1], uuid.Nil, []int64{0}, false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Ack without a position: %v, want ErrNotFound", err)
	}
	var far []int64
	for o := range int64(store.AckedMax) + 1 {
		far = append(far, 100+o)
	}
	if _, _, err := c.db.Ack(t.Context(), "g", p[0], uuid.Nil, far, false); !errors.Is(err, store.ErrTooManyAcked) {
		t.Errorf("Ack of %d offsets ahead: %v, want ErrTooManyAcked", len(far), err)
	}
}

func (c consumer) position(partition int64) (next int64) {
	c.t.Helper()
	if err := c.pool.QueryRow(c.t.Context(), `SELECT next_offset FROM cursors WHERE partition_id = $1 AND group_name = 'g'`, partition).Scan(&next); err != nil {
		c.t.Fatal(err)
	}
	return next
}

func TestClaimAutoAckCompletesOnDelivery(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 1)
	fill(t, c.pool, p[0], stored{records: 10, size: 1})
	r := store.ClaimRequest{Partitions: p, Batch: 6, AutoAck: true}
	got, lease, ok := c.claim(r)
	c.want(got, ok, p[0], 0, 5, 9)
	if !got.LeaseUntil.IsZero() {
		t.Errorf("a lease until %v, want none", got.LeaseUntil)
	}
	if _, _, err := c.db.Ack(t.Context(), "g", p[0], lease, []int64{6}, false); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("Ack: %v, want ErrLeaseLost", err)
	}
	got, _, ok = c.claim(r)
	c.want(got, ok, p[0], 6, 9, 9)
}

// Many consumers of one group through two databases: each offset is given once.
func TestClaimGivesEachOffsetOnce(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	dbs := []*store.DB{c.db, storetest.Open(t, c.db)}
	p := partitions(t, c.db, "q", 3)
	for _, id := range p {
		for range 10 {
			fill(t, c.pool, id, stored{records: 4, size: 1})
		}
	}
	type place struct{ partition, offset int64 }
	var mu sync.Mutex
	given := map[place]int{}
	left := 3 * 40
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				done := left == 0
				mu.Unlock()
				if done {
					return
				}
				lease := uuid.New()
				got, err := dbs[w%2].Claim(ctx, store.ClaimRequest{
					Group: "g", Partitions: p, Batch: 3, MaxBytes: 1 << 20, Lease: lease, LeaseFor: time.Hour,
				})
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil {
					t.Errorf("Claim: %v", err)
					return
				}
				var offsets []int64
				mu.Lock()
				for o := got.Next; o <= got.End; o++ {
					given[place{got.Partition, o}]++
					offsets = append(offsets, o)
				}
				mu.Unlock()
				if _, _, err := dbs[(w+1)%2].Ack(ctx, "g", got.Partition, lease, offsets, false); err != nil {
					t.Errorf("Ack: %v", err)
					return
				}
				mu.Lock()
				left -= len(offsets)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(given) != 120 {
		t.Errorf("%d offsets were given, want 120", len(given))
	}
	for at, n := range given {
		if n != 1 {
			t.Errorf("offset %d of partition %d was given %d times", at.offset, at.partition, n)
		}
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
