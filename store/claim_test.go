package store_test

import (
	"cmp"
	"context"
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

// claimAll asks for batches and returns them, what was refused, and their lease.
func (c consumer) claimAll(r store.ClaimRequest) ([]store.Claim, []store.Refused, uuid.UUID) {
	c.t.Helper()
	if r.Lease == uuid.Nil {
		r.Lease = uuid.Must(uuid.NewV7())
	}
	if r.LeaseFor == 0 {
		r.LeaseFor = time.Hour
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = 1 << 20
	}
	if r.Group == "" {
		r.Group = "g"
	}
	if r.Most == 0 {
		r.Most = 1
	}
	given, refused, err := c.db.Claim(c.t.Context(), r)
	if err != nil {
		c.t.Fatal(err)
	}
	return given, refused, r.Lease
}

// claim asks a subscribed group's batch of one partition and returns it with its
// lease; ok is false when nothing was there.
func (c consumer) claim(r store.ClaimRequest) (store.Claim, uuid.UUID, bool) {
	c.t.Helper()
	c.subscribe(cmp.Or(r.Group, "g"), store.Subscription{})
	given, _, lease := c.claimAll(r)
	if len(given) == 0 {
		return store.Claim{}, lease, false
	}
	return given[0], lease, true
}

// subscribe has a group begin in all queues.
func (c consumer) subscribe(group string, s store.Subscription) {
	c.t.Helper()
	qs, err := c.db.AllQueues(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	var ids []int64
	for _, q := range qs {
		ids = append(ids, q.ID)
	}
	slices.Sort(ids)
	if err := c.db.Subscribe(c.t.Context(), ids, group, s); err != nil {
		c.t.Fatal(err)
	}
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

func TestSubscriptionSaysWhereAGroupBegins(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 2)
	for range 5 {
		fill(t, c.pool, p[0], stored{records: 2, size: 1})
	}
	r := store.ClaimRequest{Partitions: p, Batch: 10}
	given, refused, _ := c.claimAll(r)
	if len(given) != 0 || len(refused) != 2 || refused[0].Why != store.ClaimUnknown {
		t.Fatalf("%v, %v, want the group to be unknown", given, refused)
	}
	c.subscribe("g", store.Subscription{New: true})
	if given, refused, _ := c.claimAll(r); len(given) != 0 || refused[0].Why != store.ClaimNothing {
		t.Fatalf("claimed %v, stored before; %v", given, refused)
	}
	c.subscribe("g", store.Subscription{}) // what was said first stays
	var between time.Time
	if err := c.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&between); err != nil {
		t.Fatal(err)
	}
	fill(t, c.pool, p[0], stored{records: 1, size: 1}, stored{records: 1, size: 1})
	fill(t, c.pool, p[1], stored{records: 3, size: 1}) // of before there was nothing: it starts at 0
	got, _, ok := c.claim(r)
	c.want(got, ok, p[0], 10, 11, 10, 11)
	got, _, ok = c.claim(r)
	c.want(got, ok, p[1], 0, 2, 2)
	r.Group, r.Batch = "another", 1
	got, _, ok = c.claim(r)
	c.want(got, ok, p[0], 0, 0, 1)
	r.Group = "since"
	c.subscribe("since", store.Subscription{From: between})
	got, _, ok = c.claim(r)
	c.want(got, ok, p[0], 10, 10, 10)
	r.Group = "ago"
	c.subscribe("ago", store.Subscription{New: true, Ago: time.Hour})
	got, _, ok = c.claim(r)
	c.want(got, ok, p[0], 0, 0, 1)
}

func (c consumer) position(partition int64) (next int64) {
	c.t.Helper()
	if err := c.pool.QueryRow(c.t.Context(), `SELECT next_offset FROM cursors WHERE partition_id = $1 AND group_name = 'g'`, partition).Scan(&next); err != nil {
		c.t.Fatal(err)
	}
	return next
}

// TestClaimOfManyPartitionsSharesOneBudgetAndLease: each partition has a batch of
// its own.
func TestClaimOfManyPartitionsSharesOneBudgetAndLease(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 5)
	for i, id := range p {
		if i != 1 {
			fill(t, c.pool, id, stored{records: 3, size: 100}, stored{records: 3, size: 100})
		}
	}
	c.subscribe("g", store.Subscription{})
	f := func(r store.ClaimRequest, want ...int64) (lease uuid.UUID) {
		t.Helper()
		r.Partitions = p
		given, _, lease := c.claimAll(r)
		var got []int64
		for _, g := range given {
			got = append(got, g.Partition-p[0], g.Next, g.End)
		}
		if !slices.Equal(got, want) {
			t.Errorf("claimed %v, want %v", got, want)
		}
		return lease
	}
	lease := f(store.ClaimRequest{Most: 3, Batch: 8}, 0, 0, 5, 2, 0, 1)
	f(store.ClaimRequest{Most: 1, Batch: 100}, 3, 0, 5)
	f(store.ClaimRequest{Most: 9, Batch: 100}, 4, 0, 5) // beside live leases
	f(store.ClaimRequest{Most: 9, Batch: 100})
	f(store.ClaimRequest{Group: "bytes", Most: 9, Batch: 100})
	c.subscribe("bytes", store.Subscription{})
	f(store.ClaimRequest{Group: "bytes", Most: 9, Batch: 100, MaxBytes: 350}, 0, 0, 5, 2, 0, 2)

	t.Run("it is extended and given back as one", func(t *testing.T) {
		n, until, err := c.db.ExtendLease(t.Context(), lease, 2*time.Hour)
		if err != nil || n != 2 || time.Until(until) < 90*time.Minute {
			t.Fatalf("extended in %d partitions until %v, %v", n, until, err)
		}
		c.ack(p[2], lease, false, 2, false, 0, 1)
		if n, _, err = c.db.ExtendLease(t.Context(), lease, 0); err != nil || n != 1 {
			t.Fatalf("extended in %d partitions, %v; want the one that is left", n, err)
		}
		group, freed, err := c.db.ReleaseLease(t.Context(), lease)
		if err != nil || group != "g" || !slices.Equal(freed, p[:1]) {
			t.Fatalf("released %v of %q, %v", freed, group, err)
		}
		if n, _, err = c.db.ExtendLease(t.Context(), lease, 0); err != nil || n != 0 {
			t.Fatalf("extended in %d partitions after its end, %v", n, err)
		}
		f(store.ClaimRequest{Most: 9, Batch: 100}, 0, 0, 5, 2, 2, 5)
	})
}

// TestClaimRepeatedFindsItsLease: the answer was lost, the lease is not.
func TestClaimRepeatedFindsItsLease(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 2)
	for _, id := range p {
		fill(t, c.pool, id, stored{records: 3, size: 100}, stored{records: 3, size: 100})
	}
	c.subscribe("g", store.Subscription{})
	r := store.ClaimRequest{Partitions: p, Most: 2, Batch: 9, Lease: uuid.Must(uuid.NewV7())}
	first, _, _ := c.claimAll(r)
	again, _, _ := c.claimAll(r)
	if len(first) != 2 || len(again) != 2 {
		t.Fatalf("%d, then %d batches", len(first), len(again))
	}
	for i, a := range again {
		f := first[i]
		if a.Partition != f.Partition || a.Next != f.Next || a.End != f.End || len(a.Segments) != len(f.Segments) || a.Left > f.Left {
			t.Errorf("first %+v, then %+v", f, a)
		}
	}
}

func TestClaimSaysWhenToComeAgain(t *testing.T) {
	t.Parallel()
	c := newConsumer(t)
	p := partitions(t, c.db, "q", 1)
	fill(t, c.pool, p[0], stored{records: 1, size: 1})
	c.exec(`UPDATE queues SET delay_seconds = 3000, retry_delay_ms = 1000000`)
	c.subscribe("g", store.Subscription{})
	q := query[int64](t, c.pool, `SELECT id FROM queues`)
	r := store.ClaimRequest{Partitions: p, Batch: 9, LeaseFor: 100 * time.Minute}
	later := func(what string, least, most time.Duration) {
		t.Helper()
		given, refused, _ := c.claimAll(r)
		if len(given) != 0 || len(refused) != 1 || refused[0].Why != store.ClaimLater || refused[0].In < least || refused[0].In > most {
			t.Errorf("%s: %+v, %+v, want to come in %v to %v", what, given, refused, least, most)
		}
		ready, err := c.db.Ready(t.Context(), []store.GroupQueue{{Queue: 1 << 40, Group: "g"}, {Queue: q, Group: "g"}}, 10)
		if err != nil || len(ready) != 1 || ready[0].Pair != 1 || ready[0].Partition != p[0] || ready[0].In < least || ready[0].In > most {
			t.Errorf("%s: ready %+v, %v, want in %v to %v", what, ready, err, least, most)
		}
	}
	later("young", 40*time.Minute, 50*time.Minute)
	c.exec(`UPDATE log_segments SET created_at = created_at - interval '1 hour'`)
	given, _, lease := c.claimAll(r)
	if len(given) != 1 || given[0].Left < 99*time.Minute || given[0].Left > 100*time.Minute {
		t.Fatalf("%+v, want it for 100 minutes", given)
	}
	later("leased", 90*time.Minute, 100*time.Minute)
	v := c.acked(store.CursorAck{Partition: p[0], Lease: lease, Offsets: []int64{0}, Outcomes: []store.Outcome{store.Failed}})
	if v.Err != nil || v.Live || v.Wait != 1000*time.Second {
		t.Fatalf("%+v", v)
	}
	later("failed", 15*time.Minute, 1000*time.Second)
	c.exec(`UPDATE cursors SET not_before = clock_timestamp()`)
	if given, _, _ := c.claimAll(r); len(given) != 1 {
		t.Error("nothing is given after the delay")
	}
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
	c.subscribe("g", store.Subscription{})
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
				lease := uuid.Must(uuid.NewV7())
				batches, _, err := dbs[w%2].Claim(ctx, store.ClaimRequest{
					Group: "g", Partitions: p, Most: 1, Batch: 3, MaxBytes: 1 << 20, Lease: lease, LeaseFor: time.Hour,
				})
				if err != nil {
					t.Errorf("Claim: %v", err)
					return
				}
				if len(batches) == 0 {
					continue
				}
				got := batches[0]
				var offsets []int64
				mu.Lock()
				for o := got.Next; o <= got.End; o++ {
					given[place{got.Partition, o}]++
					offsets = append(offsets, o)
				}
				mu.Unlock()
				v, err := dbs[(w+1)%2].Ack(ctx, uuid.Must(uuid.NewV7()), []store.CursorAck{{
					Group: "g", Partition: got.Partition, Lease: lease, Offsets: offsets, Outcomes: make([]store.Outcome, len(offsets)),
				}})
				if err != nil || v[0].Err != nil {
					t.Errorf("Ack: %+v, %v", v, err)
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
