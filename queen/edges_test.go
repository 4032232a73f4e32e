package queen

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
	"queenmq/store/storetest"
)

// room is one engine on a schema of its own, and the ways a test reaches past it.
type room struct {
	*Engine
	t    *testing.T
	db   *store.DB
	pool *pgxpool.Pool
	mode func(*Config)
}

func (r *room) push(queue, id string) Pushed {
	r.t.Helper()
	return pushOne(r.t, r.Engine, queue, id)
}

func (r *room) window(queue string, seconds int) {
	r.t.Helper()
	if _, err := r.Configure(r.t.Context(), queue, OptionsPatch{Merge: true, DedupWindowSeconds: &seconds}); err != nil {
		r.t.Fatal(err)
	}
}

// age makes everything stored so far older.
func (r *room) age(seconds int) {
	r.t.Helper()
	for _, table := range []string{"log_txns", "log_segments"} {
		if _, err := r.pool.Exec(r.t.Context(), "UPDATE "+table+" SET created_at = created_at - make_interval(secs => $1)", seconds); err != nil {
			r.t.Fatal(err)
		}
	}
	// A broker cannot see time pass in the database this way; one that starts now can.
	r.reopen()
}

// reopen replaces the engine by one that remembers nothing.
func (r *room) reopen() {
	r.t.Helper()
	r.Engine = openEngine(r.t, storetest.Open(r.t, r.db), r.mode)
}

func (r *room) want(got Pushed, status PushStatus, original Pushed) {
	r.t.Helper()
	if got.Err != nil || got.Status != status {
		r.t.Fatalf("%+v, want %s", got, status)
	}
	if status == Duplicate && (got.MessageID != original.MessageID || got.Offset != original.Offset) {
		r.t.Fatalf("%+v, want it to name %+v", got, original)
	}
}

// TestEdgesOfDeduplication holds one test for each line of "Edges" in the
// contract, run with the memory of ids on, off, and in a budget too small for
// anything: the verdicts are the same.
func TestEdgesOfDeduplication(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]func(*Config){
		"cache on":   func(*Config) {},
		"cache off":  func(c *Config) { c.DedupCacheOff = true },
		"cache 1 MB": func(c *Config) { c.DedupCacheBytesMax = 1 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for edge, f := range edges {
				t.Run(edge, func(t *testing.T) {
					db := storetest.New(t)
					f(&room{Engine: openEngine(t, db, mode), t: t, db: db, pool: storetest.Pool(t, db), mode: mode})
				})
			}
		})
	}
}

var edges = map[string]func(*room){
	"same id twice in a body": func(r *room) {
		got := r.Push(r.t.Context(), []Message{{Queue: "q", ID: []byte("a"), Value: []byte("1")}, {Queue: "q", ID: []byte("a"), Value: []byte("2")}})
		r.want(got[0], Queued, Pushed{})
		r.want(got[1], Duplicate, got[0])
	},
	"a refused message leads nobody": func(r *room) {
		got := r.Push(r.t.Context(), []Message{
			{Queue: "q", ID: []byte("a"), Value: make([]byte, 2<<20)}, // maxMessageBytes is 1 MiB and some
			{Queue: "q", ID: []byte("a"), Value: []byte("1")},
			{Queue: "q", ID: []byte("a"), Value: []byte("2")},
		})
		if got[0].Status != Failed || !errors.Is(got[0].Err, ErrTooLarge) {
			r.t.Fatalf("%+v, want it refused as too large", got[0])
		}
		r.want(got[1], Queued, Pushed{})
		r.want(got[2], Duplicate, got[1])
	},
	"later request": func(r *room) {
		first := r.push("q", "a")
		r.want(r.push("q", "a"), Duplicate, first)
		r.want(r.push("q", "b"), Queued, Pushed{})
		r.want(r.push("q", "a"), Duplicate, first)
		if n := len(fetchAll(r.t, r.Engine, "q", "")); n != 2 {
			r.t.Fatalf("%d messages stored, want 2", n)
		}
	},
	"original deleted by retention": func(r *room) {
		first := r.push("q", "a")
		r.push("q", "b")
		p, _, err := r.Partitions(r.t.Context(), "q", 0, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.db.RaiseLogStart(r.t.Context(), p[0].ID, 1); err != nil {
			r.t.Fatal(err)
		}
		r.want(r.push("q", "a"), Duplicate, Pushed{MessageID: uuid.Nil, Offset: first.Offset})
	},
	"after the window": func(r *room) {
		r.push("q", "a")
		r.age(3599 - 60) // a minute to spare, for slow machines
		r.want(r.push("q", "a"), Duplicate, Pushed{MessageID: fetchAll(r.t, r.Engine, "q", "")[0].ID})
		r.age(62)
		r.want(r.push("q", "a"), Queued, Pushed{})
	},
	"other partition, other queue": func(r *room) {
		r.push("q", "a")
		other := r.Push(r.t.Context(), []Message{{Queue: "q", Partition: "p2", ID: []byte("a"), Value: []byte("1")}, {Queue: "q2", ID: []byte("a"), Value: []byte("1")}})
		r.want(other[0], Queued, Pushed{})
		r.want(other[1], Queued, Pushed{})
	},
	"window 0 probes nothing and acks resolve": func(r *room) {
		r.window("q", 0)
		r.push("q", "a")
		r.want(r.push("q", "a"), Queued, Pushed{})
		p := popBatch(r.t, r.Engine, PopRequest{Queue: "q", Batch: 5})
		r.reopen() // the lease's memory is gone: the sidecar must do
		if len(p.Messages) != 2 {
			r.t.Fatalf("%d messages, want both", len(p.Messages))
		}
		ackAll(r.t, r.Engine, p, AckCompleted)
	},
	"configure is a full replace, merge keeps": func(r *room) {
		r.window("q", 60)
		c, err := r.Configure(r.t.Context(), "q", OptionsPatch{Merge: true})
		if err != nil || c.Queue.Options.DedupWindowSeconds != 60 {
			r.t.Fatalf("%+v, %v after a merge without the window, want 60", c.Queue.Options, err)
		}
		c, err = r.Configure(r.t.Context(), "q", OptionsPatch{})
		if err != nil || c.Queue.Options.DedupWindowSeconds != 3600 || c.Before.DedupWindowSeconds != 60 {
			r.t.Fatalf("%+v, before %+v, %v after a replace without the window, want 3600", c.Queue.Options, c.Before, err)
		}
	},
	"a failed write never remembers the id": func(r *room) { // D06
		r.push("q", "warm")
		refuse := func(on bool) {
			r.t.Helper()
			sql := `ALTER TABLE log_segments DROP CONSTRAINT broken`
			if on {
				sql = `ALTER TABLE log_segments ADD CONSTRAINT broken CHECK (base_offset < 1) NOT VALID`
			}
			if _, err := r.pool.Exec(r.t.Context(), sql); err != nil {
				r.t.Fatal(err)
			}
		}
		refuse(true)
		got := r.Push(r.t.Context(), []Message{{Queue: "q", ID: []byte("a"), Value: []byte("1")}, {Queue: "q", ID: []byte("a"), Value: []byte("2")}})
		for _, p := range got {
			if p.Status != Failed || !errors.Is(p.Err, ErrUnavailable) {
				r.t.Fatalf("%+v, want the leader's error for both", p)
			}
		}
		refuse(false)
		r.want(r.push("q", "a"), Queued, Pushed{})
	},
	"one of ten that the database refuses": func(r *room) { // D06
		var msgs []Message
		for i := range 10 {
			msgs = append(msgs, Message{Queue: "q", Partition: fmt.Sprint("p", i), ID: []byte("a"), Value: fmt.Append(nil, i)})
			r.Push(r.t.Context(), []Message{{Queue: "q", Partition: fmt.Sprint("p", i), ID: []byte("warm"), Value: []byte("0")}})
		}
		p5, err := r.catalog.named(r.t.Context(), "q", "p5")
		if err != nil {
			r.t.Fatal(err)
		}
		exec := func(sql string) {
			r.t.Helper()
			if _, err := r.pool.Exec(r.t.Context(), sql); err != nil {
				r.t.Fatal(err)
			}
		}
		exec(fmt.Sprintf(`ALTER TABLE log_segments ADD CONSTRAINT poisoned CHECK (partition_id <> %d) NOT VALID`, p5.id))
		first := r.Push(r.t.Context(), msgs)
		if first[5].Status != Failed {
			r.t.Fatalf("%+v, want the refused one to fail", first[5])
		}
		exec(`ALTER TABLE log_segments DROP CONSTRAINT poisoned`)
		for i, p := range r.Push(r.t.Context(), msgs) {
			if first[i].Status == Failed {
				r.want(p, Queued, Pushed{})
			} else {
				r.want(p, Duplicate, first[i])
			}
			if got := fetchAll(r.t, r.Engine, "q", fmt.Sprint("p", i)); len(got) != 2 || string(got[1].Value) != fmt.Sprint(i) {
				r.t.Errorf("p%d has %d messages, want the one pushed, once", i, len(got))
			}
		}
	},
	"two brokers, one id": func(r *room) {
		other := openEngine(r.t, storetest.Open(r.t, r.db), r.mode)
		for i := range 30 {
			id := fmt.Sprint("id-", i)
			second := make(chan Pushed)
			go func() {
				second <- other.Push(context.WithoutCancel(r.t.Context()), []Message{{Queue: "q", ID: []byte(id), Value: []byte("2")}})[0]
			}()
			a, b := r.push("q", id), <-second
			if b.Err != nil || (a.Status == Queued) == (b.Status == Queued) || a.MessageID != b.MessageID || a.Offset != b.Offset {
				r.t.Fatalf("%s: %+v and %+v, want one queued and both naming it", id, a, b)
			}
		}
	},
	"a duplicate does not renew the window": func(r *room) {
		first := r.push("q", "a")
		r.age(3000)
		r.want(r.push("q", "a"), Duplicate, first)
		r.age(700)
		r.want(r.push("q", "a"), Queued, Pushed{})
	},
	"stored twice while the window was 0": func(r *room) {
		r.window("q", 0)
		first := r.push("q", "a")
		r.age(100)
		second := r.push("q", "a")
		r.window("q", 3600)
		r.want(r.push("q", "a"), Duplicate, first)
		r.window("q", 50)
		r.want(r.push("q", "a"), Duplicate, second)
	},
	"window shorter than the sidecar": func(r *room) {
		r.window("q", 60)
		r.push("q", "a")
		r.age(62)
		var rows int
		if err := r.pool.QueryRow(r.t.Context(), `SELECT count(*) FROM log_txns`).Scan(&rows); err != nil || rows != 1 {
			r.t.Fatalf("%d sidecar rows, %v; want the id still there", rows, err)
		}
		r.want(r.push("q", "a"), Queued, Pushed{})
	},
	"no partition and Default are one": func(r *room) {
		first := r.push("q", "a")
		got := r.Push(r.t.Context(), []Message{{Queue: "q", Partition: "Default", ID: []byte("a"), Value: []byte("1")}})
		r.want(got[0], Duplicate, first)
	},
	"an id too long or empty": func(r *room) {
		got := r.Push(r.t.Context(), []Message{
			{Queue: "q", ID: []byte(strings.Repeat("x", 65_536)), Value: []byte("1")},
			{Queue: "q", ID: []byte{}, Value: []byte("1")},
			{Queue: "q", ID: []byte(strings.Repeat("x", 65_535)), Value: []byte("1")},
		})
		if !errors.Is(got[0].Err, ErrInvalidRequest) || !errors.Is(got[1].Err, ErrInvalidRequest) || got[2].Status != Queued {
			r.t.Fatalf("%v, %v, %s; want two refused and one queued", got[0].Err, got[1].Err, got[2].Status)
		}
		if n := len(fetchAll(r.t, r.Engine, "q", "")); n != 1 {
			r.t.Fatalf("%d messages stored, want 1", n)
		}
	},
	"same id, other payload": func(r *room) {
		first := r.push("q", "a")
		got := r.Push(r.t.Context(), []Message{{Queue: "q", ID: []byte("a"), Value: []byte("another")}})
		r.want(got[0], Duplicate, first)
		if m := fetchAll(r.t, r.Engine, "q", ""); len(m) != 1 || string(m[0].Value) != `{"n":1}` {
			r.t.Fatalf("%d messages, %q; want the first payload", len(m), m[0].Value)
		}
	},
	"in a transaction everything rolls back": func(r *room) {
		first := r.push("q", "a")
		tx := func() Transaction {
			return Transaction{
				Operations: []Operation{pushOp(msg("q", "", "b", "1"), msg("q", "", "a", "1"), msg("other", "", "", "1"))},
				KV:         []KVOp{{Op: KVIncr, NS: "n", Key: "sum", Delta: "1", Forever: true}},
			}
		}
		for range 2 {
			got := transact(r.t, r.Engine, tx())
			if got.Reason != RollbackDuplicate || got.Failed != 1 || got.Pushed[1].MessageID != first.MessageID || got.Pushed[1].Offset != first.Offset {
				r.t.Fatalf("%+v, want a duplicate of %+v", got, first)
			}
			r.reopen() // also where nothing is remembered
		}
		if sum := r.mustKV(r.t, KVOp{Op: KVGet, NS: "n", Key: "sum"}); sum.Applied {
			r.t.Fatalf("the counter is %s, want none", sum.Value)
		}
		r.want(r.push("q", "b"), Queued, Pushed{}) // not remembered
		r.age(3599 + 62)
		if got := transact(r.t, r.Engine, tx()); got.Reason != rollbackNone || got.Pushed[1].Status != Queued {
			r.t.Fatalf("after the window: %+v", got)
		}
	},
	"in a transaction an id repeated is stored once": func(r *room) {
		for _, seconds := range []int{3600, 0} {
			q := fmt.Sprint("q", seconds)
			r.window(q, seconds)
			got := transact(r.t, r.Engine, Transaction{Operations: []Operation{
				pushOp(msg(q, "", "a", "1"), msg(q, "Default", "a", "2")), pushOp(msg(q, "p", "a", "3"), msg(q, "", "a", "4")),
			}})
			p := got.Pushed
			if got.Reason != rollbackNone || p[0].Status != Queued || p[2].Status != Queued {
				r.t.Fatalf("window %d: %+v", seconds, got)
			}
			r.want(p[1], Duplicate, p[0])
			r.want(p[3], Duplicate, p[0])
			if n := len(fetchAll(r.t, r.Engine, q, "")); n != 1 {
				r.t.Fatalf("window %d: %d messages stored, want 1", seconds, n)
			}
		}
	},
	"in a transaction a window of 0 probes nothing": func(r *room) {
		r.window("q", 0)
		r.push("q", "a")
		got := transact(r.t, r.Engine, Transaction{Operations: []Operation{pushOp(msg("q", "", "a", "1"))}})
		if got.Reason != rollbackNone || got.Pushed[0].Status != Queued || got.Pushed[0].Offset != 1 {
			r.t.Fatalf("%+v, want it stored again", got)
		}
	},
	"in a transaction an original that is deleted": func(r *room) {
		r.push("q", "a")
		r.push("q", "b")
		p, _, err := r.Partitions(r.t.Context(), "q", 0, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.db.RaiseLogStart(r.t.Context(), p[0].ID, 1); err != nil {
			r.t.Fatal(err)
		}
		got := transact(r.t, r.Engine, Transaction{Operations: []Operation{pushOp(msg("q", "", "a", "1"))}})
		if got.Reason != RollbackDuplicate || got.Pushed[0].MessageID != uuid.Nil || got.Pushed[0].Offset != 0 {
			r.t.Fatalf("%+v, want a duplicate of offset 0 without an id", got)
		}
	},
	"in a transaction what it stores is known": func(r *room) {
		got := transact(r.t, r.Engine, Transaction{Operations: []Operation{pushOp(msg("q", "", "a", "1"), msg("q", "", "", "2"))}})
		r.want(r.push("q", "a"), Duplicate, got.Pushed[0])
		r.want(r.push("q", got.Pushed[1].MessageID.String()), Duplicate, got.Pushed[1])
		again := transact(r.t, r.Engine, Transaction{Operations: []Operation{pushOp(msg("q", "", "a", "1"))}})
		r.want(again.Pushed[0], Duplicate, got.Pushed[0])
	},
	"a window that another broker changed": func(r *room) {
		other := openEngine(r.t, storetest.Open(r.t, r.db), func(c *Config) { r.mode(c); c.CatalogEvery = time.Hour })
		first := r.push("q", "a")
		transact(r.t, other, Transaction{Operations: []Operation{pushOp(msg("q", "", "b", "1"))}}) // it knows the queue now
		r.window("q", 0)
		if got := transact(r.t, other, Transaction{Operations: []Operation{pushOp(msg("q", "", "a", "1"))}}); got.Reason != rollbackNone {
			r.t.Fatalf("%+v, want it stored under the new window", got)
		}
		r.window("q", 3600)
		got := transact(r.t, other, Transaction{Operations: []Operation{pushOp(msg("q", "", "a", "1"))}})
		if got.Reason != RollbackDuplicate {
			r.t.Fatalf("%+v, want a duplicate under the new window", got)
		}
		r.want(got.Pushed[0], Duplicate, first)
	},
	"a queue that another broker deleted": func(r *room) {
		other := openEngine(r.t, storetest.Open(r.t, r.db), func(c *Config) { r.mode(c); c.CatalogEvery = time.Hour })
		r.push("q", "a")
		transact(r.t, other, Transaction{Operations: []Operation{pushOp(msg("q", "", "b", "1"))}})
		if _, err := r.DeleteQueue(r.t.Context(), QueueRef{Name: "q"}); err != nil {
			r.t.Fatal(err)
		}
		got := transact(r.t, other, Transaction{Operations: []Operation{pushOp(msg("q", "", "a", "1"))}})
		if got.Reason != rollbackNone || got.Pushed[0].Status != Queued || got.Pushed[0].Offset != 0 {
			r.t.Fatalf("%+v, want it in a queue made anew", got)
		}
	},
	"consumed ids stay known": func(r *room) { // D02
		for _, auto := range []bool{true, false} {
			id := fmt.Sprint("auto-", auto)
			first := r.push("q", id)
			p := popBatch(r.t, r.Engine, PopRequest{Queue: "q", AutoAck: auto, Batch: 9})
			r.want(r.push("q", id), Duplicate, first)
			if !auto {
				ackAll(r.t, r.Engine, p, AckCompleted)
			}
			r.want(r.push("q", id), Duplicate, first)
		}
	},
	"the window ends to the microsecond": func(r *room) {
		clock := storetest.NewClock(r.t, r.db)
		first := r.push("q", "a")
		var stored time.Time
		if err := r.pool.QueryRow(r.t.Context(), `SELECT created_at FROM log_txns`).Scan(&stored); err != nil {
			r.t.Fatal(err)
		}
		clock.Stop(stored.Add(time.Hour))
		r.want(r.push("q", "a"), Duplicate, first)
		clock.Stop(stored.Add(time.Hour + time.Microsecond))
		r.want(r.push("q", "a"), Queued, Pushed{})
	},
	"the database's clock is put forward": func(r *room) {
		clock := storetest.NewClock(r.t, r.db)
		first := r.push("q", "a")
		clock.Put(50 * time.Minute)
		second := r.push("q", "b")
		r.want(r.push("q", "a"), Duplicate, first)
		clock.Put(100 * time.Minute)
		again := r.push("q", "a")
		r.want(again, Queued, Pushed{})
		r.want(r.push("q", "a"), Duplicate, again)
		r.want(r.push("q", "b"), Duplicate, second)
	},
	"the database's clock is put back": func(r *room) { // what had left the window is in it again
		clock := storetest.NewClock(r.t, r.db)
		first := r.push("q", "a")
		clock.Put(2 * time.Hour)
		second := r.push("q", "b") // and now the broker has seen that time
		clock.Put(0)
		r.want(r.push("q", "a"), Duplicate, first)
		tx := transact(r.t, r.Engine, Transaction{Operations: []Operation{pushOp(msg("q", "", "a", "1"))}})
		if tx.Reason != RollbackDuplicate {
			r.t.Fatalf("%+v, want a duplicate of %+v", tx, first)
		}
		r.want(tx.Pushed[0], Duplicate, first)
		schedule(r.t, r.Engine, TimerOp{Queue: "q", Key: "timer", ID: []byte("a"), Payload: []byte("1")})
		untilFired(r.t, r.Engine, "q")
		if n := len(fetchAll(r.t, r.Engine, "q", "")); n != 2 {
			r.t.Fatalf("%d messages after a timer for a, want 2", n)
		}
		r.want(r.push("q", "b"), Duplicate, second)
		r.want(r.push("q", "c"), Queued, Pushed{})
		clock.Put(-time.Hour)
		r.want(r.push("q", "a"), Duplicate, first)
		r.want(r.push("q", "d"), Queued, Pushed{})
		r.want(r.push("q", "b"), Duplicate, second)
	},
	"many ids, some old, in another broker's memory": func(r *room) {
		other := openEngine(r.t, storetest.Open(r.t, r.db), r.mode)
		originals := map[string]Pushed{}
		for round := range 12 {
			eng := []*Engine{r.Engine, other}[round%2]
			var msgs []Message
			for i := range 100 {
				n := round*60 + i // 40 of them were in the round before
				msgs = append(msgs, Message{Queue: "q", ID: fmt.Append(nil, n), Value: []byte("x")})
			}
			for i, p := range eng.Push(r.t.Context(), msgs) {
				id := string(msgs[i].ID)
				if o, known := originals[id]; known {
					r.want(p, Duplicate, o)
				} else {
					r.want(p, Queued, Pushed{})
					originals[id] = p
				}
			}
		}
	},
}

// TestAPartitionWithoutAWindowTakesNoMemory: what was known of it goes with its window,
// whoever took that away, and whether anything is pushed after or not.
func TestAPartitionWithoutAWindowTakesNoMemory(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	r := &room{Engine: openEngine(t, db), t: t, db: db, pool: storetest.Pool(t, db)}
	other := openEngine(t, storetest.Open(t, db), func(c *Config) { c.CatalogEvery = time.Hour })
	entries := func(e *Engine, want int64) {
		t.Helper()
		if n := e.cache.Stats().Entries; n != want {
			t.Fatalf("%d entries, want %d", n, want)
		}
	}
	first := r.push("q", "a")
	entries(r.Engine, 1)
	r.window("q", 0)
	entries(r.Engine, 0)
	r.push("q", "a")
	entries(r.Engine, 0)
	r.window("q", 3600)
	r.want(r.push("q", "a"), Duplicate, first)
	pushOne(t, other, "p", "a") // it does not hear of what is changed elsewhere …
	entries(other, 1)
	r.window("p", 0)
	entries(other, 1)
	pushOne(t, other, "p", "b") // … but by its own calls
	entries(other, 0)
	r.window("p", 3600)
	r.want(pushOne(t, other, "p", "a"), Duplicate, Pushed{MessageID: fetchAll(t, other, "p", "")[0].ID})
}
