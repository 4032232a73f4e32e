package queen

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queenmq/store/storetest"
)

func transact(t interface {
	Helper()
	Fatal(...any)
}, e *Engine, tx Transaction,
) Transacted {
	t.Helper()
	ctx, cancel := contextWithTimeout()
	defer cancel()
	out, err := e.Transact(ctx, tx)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func pushOp(msgs ...Message) Operation { return Operation{Push: msgs} }

func msg(queue, partition, id, value string) Message {
	m := Message{Queue: queue, Partition: partition, Value: []byte(value)}
	if id != "" {
		m.ID = []byte(id)
	}
	return m
}

// txModel is what is there, in maps.
type txModel struct {
	logs   map[[2]string][]string // queue, partition → ids, minted ones empty
	kv     *kvModel
	timers map[string]bool
	next   int // position of the group in the queue "in"
	done   map[int]bool
	lease  uuid.UUID
	end    int // of the lease, exclusive
}

func (m *txModel) clone() *txModel {
	c := *m
	c.logs = maps.Clone(m.logs)
	for k, v := range c.logs {
		c.logs[k] = slices.Clone(v)
	}
	c.kv = &kvModel{keys: maps.Clone(m.kv.keys), now: m.kv.now}
	c.timers, c.done = maps.Clone(m.timers), maps.Clone(m.done)
	return &c
}

// apply is what a transaction must answer.
func (m *txModel) apply(tx Transaction, window map[string]bool) (reason Rollback, failed []int) {
	type placed struct{ ack, at int }
	at, inside := 0, map[[3]string]bool{}
	fail := func(r Rollback, at int) {
		if reason == rollbackNone {
			reason = r
		}
		if reason == r {
			failed = append(failed, at)
		}
	}
	lost := -1
	var acks []placed
	for i, o := range tx.Operations {
		if o.Ack != nil {
			acks = append(acks, placed{i, at})
			at++
		}
		for _, p := range o.Push {
			part := p.Partition
			if part == "" {
				part = DefaultPartition
			}
			key, id := [2]string{p.Queue, part}, string(p.ID)
			switch {
			case id != "" && inside[[3]string{p.Queue, part, id}]:
			case id != "" && window[p.Queue] && slices.Contains(m.logs[key], id):
				fail(RollbackDuplicate, at)
			default:
				inside[[3]string{p.Queue, part, id}] = true
				m.logs[key] = append(m.logs[key], id)
			}
			at++
		}
	}
	var given []int
	for _, a := range acks {
		ack := tx.Operations[a.ack].Ack
		var off int
		_, err := fmt.Sscanf(string(ack.TransactionID), "in-%d", &off)
		if err != nil || m.lease == uuid.Nil || ack.LeaseID != m.lease || off >= m.end || off < m.next {
			fail(RollbackAckRejected, a.at)
			continue
		}
		if ack.Status == AckCompleted {
			m.done[off] = true
		} else {
			given = append(given, off)
		}
	}
	back := slices.ContainsFunc(given, func(off int) bool { return !m.done[off] })
	for m.done[m.next] {
		delete(m.done, m.next)
		m.next++
	}
	if back || m.next >= m.end {
		m.lease = uuid.Nil
	}
	for i, o := range tx.KV {
		if ok, _ := m.kv.apply(o); !ok && o.Required && lost < 0 {
			lost = i
			fail(RollbackKVPrecondition, at+i)
		}
	}
	for _, o := range tx.Timers {
		if o.Cancel {
			delete(m.timers, o.Key)
		} else {
			m.timers[o.Key] = true
		}
	}
	return reason, failed
}

// TestTransactionsAgreeWithAModel runs random transactions, through two brokers on one
// database, against maps: each takes effect as a whole or not at all, and says
// which and why, with the memory of ids on and off.
func TestTransactionsAgreeWithAModel(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]func(*Config){
		"cache on":  func(*Config) {},
		"cache off": func(c *Config) { c.DedupCacheOff = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.New(t)
			brokers := []*Engine{openEngine(t, db, mode), openEngine(t, storetest.Open(t, db), mode)}
			round := 0
			rapid.Check(t, func(t *rapid.T) {
				round++
				checkTransactions(t, brokers, fmt.Sprint(round, "-"))
			})
		})
	}
}

func checkTransactions(t *rapid.T, brokers []*Engine, prefix string) {
	in, wide, off := prefix+"in", prefix+"wide", prefix+"off"
	zero := 0
	ctx, cancel := contextWithTimeout()
	defer cancel()
	if _, err := brokers[0].Configure(ctx, off, OptionsPatch{DedupWindowSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	const messages = 6
	var first []Message
	for i := range messages {
		first = append(first, msg(in, "", fmt.Sprint("in-", i), "1"))
	}
	brokers[0].Push(ctx, first)
	parts, _, err := brokers[0].Partitions(ctx, in, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	partition := parts[0].ID
	window := map[string]bool{in: true, wide: true}
	m := &txModel{
		logs: map[[2]string][]string{}, kv: &kvModel{keys: map[string]kvModelRow{}}, timers: map[string]bool{}, done: map[int]bool{},
	}
	for _, f := range first {
		m.logs[[2]string{in, DefaultPartition}] = append(m.logs[[2]string{in, DefaultPartition}], string(f.ID))
	}
	for range rapid.IntRange(1, 5).Draw(t, "transactions") {
		e := rapid.SampledFrom(brokers).Draw(t, "broker")
		if m.lease == uuid.Nil && m.next < messages {
			p, err := e.Pop(ctx, PopRequest{Queue: in, Partition: DefaultPartition, Group: "g", Batch: 3, Wait: time.Minute})
			if err != nil || len(p) == 0 {
				t.Fatalf("%+v, %v; want a batch from %d on", p, err, m.next)
			}
			m.lease = p[0].LeaseID
			m.end = int(p[0].Messages[len(p[0].Messages)-1].Offset) + 1
		}
		tx := drawTransaction(t, m, in, wide, off, partition, prefix)
		want := m.clone()
		reason, failed := want.apply(tx, window)
		got := transact(t, e, tx)
		// Of several acks that are refused any may be named; else the first is.
		named := reason == rollbackNone && got.Failed == -1 || reason == RollbackAckRejected && slices.Contains(failed, got.Failed) ||
			len(failed) > 0 && got.Failed == failed[0]
		if got.Reason != reason || !named {
			t.Fatalf("%q at %d (%v), want %q at %d", got.Reason, got.Failed, got.Err, reason, failed)
		}
		if (got.Lost != nil) != (reason == RollbackKVPrecondition) || got.Lost != nil && got.Lost.Applied {
			t.Fatalf("lost %+v, want what did not apply", got.Lost)
		}
		if reason == rollbackNone {
			for i, o := range tx.KV {
				if row, live := want.kv.live(o.Key); live && got.KV[i].Applied && (o.Op == KVPut || o.Op == KVPutIfAbsent || o.Op == KVIncr) {
					row.version = got.KV[i].Version
					want.kv.keys[o.Key] = row
				}
			}
			m = want
		}
		checkTransacted(t, e, m, [3]string{in, wide, off}, partition, prefix)
	}
}

func drawTransaction(t *rapid.T, m *txModel, in, wide, off string, partition int64, ns string) Transaction {
	var tx Transaction
	for range rapid.IntRange(0, 3).Draw(t, "operations") {
		if m.lease != uuid.Nil && rapid.IntRange(0, 2).Draw(t, "ack") == 0 {
			a := &Ack{
				TransactionID: fmt.Append(nil, "in-", rapid.IntRange(m.next, m.end-1).Draw(t, "offset")),
				PartitionID:   partition, LeaseID: m.lease, Group: "g", Status: AckCompleted,
			}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				a.Status = AckRetry
			case 1:
				a.LeaseID = uuid.New()
			case 2:
				a.TransactionID = []byte("nobody's")
			}
			tx.Operations = append(tx.Operations, Operation{Ack: a})
			continue
		}
		tx.Operations = append(tx.Operations, pushOp(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Message {
			return msg(rapid.SampledFrom([]string{wide, wide, off, in}).Draw(t, "queue"), rapid.SampledFrom([]string{"", "p"}).Draw(t, "partition"),
				rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "f", "g"}).Draw(t, "id"), "1")
		}), 1, 3).Draw(t, "messages")...))
	}
	tx.KV = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) KVOp { return drawOp(t, ns, m.kv) }), 0, 2).Draw(t, "kv")
	for range rapid.IntRange(0, 2).Draw(t, "timers") {
		tx.Timers = append(tx.Timers, TimerOp{
			Cancel: rapid.Bool().Draw(t, "cancel"), Queue: wide, Key: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "timer"),
			Payload: []byte("1"), Delay: time.Hour,
		})
	}
	if len(tx.Operations)+len(tx.KV)+len(tx.Timers) == 0 {
		tx.Operations = append(tx.Operations, pushOp(msg(wide, "", "", "1")))
	}
	return tx
}

// checkTransacted compares all that can be seen.
func checkTransacted(t *rapid.T, e *Engine, m *txModel, queues [3]string, partition int64, ns string) {
	t.Helper()
	ctx, cancel := contextWithTimeout()
	defer cancel()
	for _, q := range queues {
		for _, p := range []string{DefaultPartition, "p"} {
			want, there := m.logs[[2]string{q, p}]
			end := int64(-1)
			parts, _, err := e.Partitions(ctx, q, 0, 0) // asks the database
			if err != nil && !errors.Is(err, ErrUnknownQueue) {
				t.Fatal(err)
			}
			for _, part := range parts {
				if part.Name == p {
					end = part.LogEnd
				}
			}
			if !there {
				// Not even the partition has come into being.
				if end >= 0 {
					t.Fatalf("%s/%s is there, up to %d; want no such partition", q, p, end)
				}
				continue
			}
			if end != int64(len(want)) {
				t.Fatalf("%s/%s ends at %d, want %d", q, p, end, len(want))
			}
			var ids []string
			for int64(len(ids)) < end { // another broker's write may be seen a little later
				f, err := e.Fetch(ctx, FetchRequest{Items: []FetchItem{{Queue: q, Partition: p, Offset: int64(len(ids)), MaxBytes: 1 << 20}}, MaxBytes: 1 << 20})
				if err != nil || f[0].Err != nil {
					t.Fatal(err, f)
				}
				for _, s := range f[0].Messages {
					id := string(s.TransactionID)
					if id == s.ID.String() {
						id = ""
					}
					if s.Offset != int64(len(ids)) {
						t.Fatalf("%s/%s: offset %d at %d", q, p, s.Offset, len(ids))
					}
					ids = append(ids, id)
				}
			}
			if !slices.Equal(ids, want) {
				t.Fatalf("%s/%s: %q, want %q", q, p, ids, want)
			}
		}
	}
	checkKeys(t, e, ns, m.kv)
	page, _, err := e.ListTimers(ctx, queues[1], "", 0)
	var timers []string
	for _, p := range page {
		timers = append(timers, p.Key)
	}
	if want := slices.Sorted(maps.Keys(m.timers)); err != nil || !slices.Equal(timers, want) {
		t.Fatalf("timers %v (%v), want %v", timers, err, want)
	}
	cursors, err := e.db.Cursors(ctx, "g", []int64{partition})
	if err != nil || len(cursors) == 1 && cursors[0].Offset != int64(m.next) || len(cursors) == 0 && m.next > 0 {
		t.Fatalf("cursor %+v (%v), want %d", cursors, err, m.next)
	}
}

// TestTransactionIsRetriedSafely is the pipeline of the contract: a retry of a step
// that took effect is told so by its push, before its lost lease and its marker.
func TestTransactionIsRetriedSafely(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushOne(t, e, "in", "a")
	p := popBatch(t, e, PopRequest{Queue: "in", Batch: 5})
	step := Transaction{
		Operations: []Operation{
			{Ack: &Ack{TransactionID: []byte("a"), PartitionID: p.PartitionID, LeaseID: p.LeaseID, Status: AckCompleted}},
			pushOp(msg("out", "", "invoice-a", "1")),
		},
		KV: []KVOp{{Op: KVPutIfAbsent, NS: "n", Key: "a", Value: []byte("1"), TTLSeconds: 3600, Required: true}},
	}
	first := transact(t, e, step)
	if first.Reason != rollbackNone || first.Pushed[0].Status != Queued || first.Pushed[0].Offset != 0 {
		t.Fatalf("first: %+v", first)
	}
	again := transact(t, e, step)
	if d := again.Pushed[0]; again.Reason != RollbackDuplicate || again.Failed != 1 || d.Offset != 0 || d.MessageID != first.Pushed[0].MessageID {
		t.Errorf("retried: %+v, want a duplicate of %+v", again, first.Pushed[0])
	}
	step.Operations[1].Push[0].ID = nil
	if got := transact(t, e, step); got.Reason != RollbackAckRejected || got.Failed != 0 || !errors.Is(got.Err, ErrUnresolvable) && !errors.Is(got.Err, ErrLeaseLost) {
		t.Errorf("retried without an id: %+v, want the ack rejected", got)
	}
	step.Operations = nil
	if got := transact(t, e, step); got.Reason != RollbackKVPrecondition || got.Failed != 0 || got.Lost.Reason != "exists" || string(got.Lost.Value) != "1" {
		t.Errorf("only its marker: %+v, want it lost", got)
	}
	// The marker expires: the step runs again.
	agePool(t, storetest.Pool(t, e.db), 3600)
	if got := transact(t, e, step); got.Reason != rollbackNone {
		t.Errorf("after the marker expired: %+v", got)
	}
}

// TestTransactionOfManyBrokersTakesEffectOnce: the same step at once on two brokers.
func TestTransactionOfManyBrokersTakesEffectOnce(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	brokers := []*Engine{openEngine(t, db), openEngine(t, storetest.Open(t, db))}
	for _, gate := range []string{"marker", "id"} {
		var mu sync.Mutex
		reasons := map[Rollback]int{}
		var wg sync.WaitGroup
		for i := range 12 {
			tx := Transaction{Operations: []Operation{pushOp(msg("a-"+gate, "", "", "1"), msg("b-"+gate, "", "", "1"))}}
			if gate == "id" {
				tx.Operations[0].Push[1].ID = []byte("once")
			} else {
				tx.KV = []KVOp{{Op: KVPutIfAbsent, NS: "n", Key: "once", Value: []byte("1"), Forever: true, Required: true}}
			}
			if i%2 == 0 { // in either order
				slices.Reverse(tx.Operations[0].Push)
			}
			wg.Go(func() {
				got, err := brokers[i/2%2].Transact(t.Context(), tx)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				reasons[got.Reason]++
			})
		}
		wg.Wait()
		want := map[string]Rollback{"marker": RollbackKVPrecondition, "id": RollbackDuplicate}[gate]
		if reasons[rollbackNone] != 1 || reasons[want] != 11 {
			t.Errorf("%s: %v, want one to take effect and the others %s", gate, reasons, want)
		}
		if a, b := len(fetchAll(t, brokers[0], "a-"+gate, "")), len(fetchAll(t, brokers[1], "b-"+gate, "")); a != 1 || b != 1 {
			t.Errorf("%s: %d and %d messages, want one of each", gate, a, b)
		}
	}
}

// TestTransactionsAndPushesLeaveNoGap: appends of both kinds to the same partitions
// at once leave a memory of ids that vouches to the end.
func TestTransactionsAndPushesLeaveNoGap(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushOne(t, e, "q", "first")
	pushOne(t, e, "r", "first")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 15 {
				id := fmt.Sprint(w, "-", i)
				if w%2 == 0 {
					for _, p := range e.Push(t.Context(), []Message{msg("q", "", id, "1"), msg("r", "", id, "1")}) {
						if p.Status != Queued {
							t.Errorf("push %s: %+v", id, p)
						}
					}
				} else if got, err := e.Transact(t.Context(), Transaction{Operations: []Operation{pushOp(msg("r", "", id, "1"), msg("q", "", id, "1"))}}); err != nil || got.Reason != rollbackNone {
					t.Errorf("transaction %s: %+v, %v", id, got, err)
				}
			}
		})
	}
	wg.Wait()
	s := e.cache.Stats()
	if s.Contradictions != 0 || s.Gaps != 0 {
		t.Errorf("the memory of ids saw %d contradictions and %d gaps", s.Contradictions, s.Gaps)
	}
	for _, q := range []string{"q", "r"} {
		if n := len(fetchAll(t, e, q, "")); n != 121 {
			t.Errorf("%s has %d messages, want 121", q, n)
		}
	}
}

func TestTransactionReasonsOfRefusal(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	createTopic(t, e, "topic", 2)
	for name, c := range map[string]struct {
		tx     Transaction
		reason Rollback
		failed int
	}{
		"nothing":           {Transaction{}, RollbackBadRequest, -1},
		"no such partition": {Transaction{Operations: []Operation{pushOp(msg("topic", "", "", "1"), msg("topic", "2", "", "1"))}}, RollbackBadRequest, 1},
		"bad name":          {Transaction{Operations: []Operation{pushOp(msg("q\x01", "", "", "1"))}}, RollbackBadRequest, 0},
		"empty id":          {Transaction{Operations: []Operation{pushOp(Message{Queue: "q", ID: []byte{}})}}, RollbackBadRequest, 0},
		"too large":         {Transaction{Operations: []Operation{pushOp(msg("q", "", "", "1"), msg("q", "", "", strings.Repeat("x", 1<<20)))}}, RollbackTooLarge, 1},
		"too much":          {Transaction{Operations: []Operation{pushOp(slices.Repeat([]Message{msg("q", "", "", strings.Repeat("x", 1<<20-1000))}, 17)...)}}, RollbackTooLarge, -1},
		"ack of no group":   {Transaction{Operations: []Operation{pushOp(msg("q", "", "", "1")), {Ack: &Ack{TransactionID: []byte("a"), PartitionID: 99, Status: AckCompleted}}}}, RollbackAckRejected, 1},
		"ack status":        {Transaction{Operations: []Operation{{Ack: &Ack{TransactionID: []byte("a"), PartitionID: 99, Status: "x"}}}}, RollbackBadRequest, 0},
		"prefix":            {Transaction{KV: []KVOp{{Op: KVCheck, NS: "n", Key: "k", Expect: new(int64)}, {Op: KVGetPrefix, NS: "n", Prefix: "p"}}}, RollbackBadRequest, 0},
		"timer horizon":     {Transaction{Timers: []TimerOp{{Queue: "q", Key: "k", Delay: TimerHorizon + time.Millisecond}}}, RollbackBadRequest, 1},
		"large timer":       {Transaction{Timers: []TimerOp{{Queue: "q", Key: "k", Payload: make([]byte, TimerPayloadBytesMax+1)}}}, RollbackTooLarge, 1},
	} {
		c.tx.KV = append(c.tx.KV, KVOp{Op: KVIncr, NS: "n", Key: "sum", Delta: "1", Forever: true})
		if name == "nothing" {
			c.tx.KV = nil
		}
		got := transact(t, e, c.tx)
		if got.Reason != c.reason || got.Failed != c.failed || got.Err == nil {
			t.Errorf("%s: %+v, want %s at %d", name, got, c.reason, c.failed)
		}
	}
	if got := e.mustKV(t, KVOp{Op: KVGet, NS: "n", Key: "sum"}); got.Applied {
		t.Errorf("the counter is %s, want it untouched", got.Value)
	}
	if _, err := e.catalog.queue(t.Context(), QueueRef{Name: "q"}); !errors.Is(err, ErrUnknownQueue) {
		t.Errorf("queue q: %v, want none", err)
	}
}

func (e *Engine) mustKV(t *testing.T, o KVOp) KVResult {
	t.Helper()
	got, err := e.KV(t.Context(), []KVOp{o})
	if err != nil {
		t.Fatal(err)
	}
	return got.Results[0]
}

// TestLostAnswersTakeEffectOnce: the call is committed and its answer never
// arrives; the engine's repeat answers what happened.
func TestLostAnswersTakeEffectOnce(t *testing.T) {
	t.Parallel()
	l, db := openLossy(t)
	e := openEngine(t, db)
	pushOne(t, e, "in", "a")
	p := popBatch(t, e, PopRequest{Queue: "in", Batch: 5})

	l.lose("lost-incr")
	if got := e.mustKV(t, KVOp{Op: KVIncr, NS: "n", Key: "lost-incr", Delta: "1", Forever: true}); string(got.Value) != "1" || l.count() != 1 {
		t.Errorf("incr: %+v, %d answers lost; want 1 and 1", got, l.count())
	}
	if got := e.mustKV(t, KVOp{Op: KVGet, NS: "n", Key: "lost-incr"}); string(got.Value) != "1" {
		t.Errorf("the counter is %s, want 1", got.Value)
	}

	l.lose("lost-transaction")
	got := transact(t, e, Transaction{
		Operations: []Operation{
			pushOp(msg("in", "", "", "lost-transaction"), msg("new", "", "b", "2")),
			{Ack: &Ack{TransactionID: []byte("a"), PartitionID: p.PartitionID, LeaseID: p.LeaseID, Status: AckCompleted}},
		},
		KV:     []KVOp{{Op: KVIncr, NS: "n", Key: "sum", Delta: "1", Forever: true}},
		Timers: []TimerOp{{Queue: "later", Key: "k", Payload: []byte("1"), Delay: time.Hour}},
	})
	if got.Reason != rollbackNone || string(got.KV[0].Value) != "1" || got.Timers[0].Status != TimerScheduled || l.count() != 2 {
		t.Fatalf("transaction: %+v, %d answers lost", got, l.count())
	}
	in, made := fetchAll(t, e, "in", ""), fetchAll(t, e, "new", "")
	if len(in) != 2 || in[1].ID != got.Pushed[0].MessageID || in[1].Offset != got.Pushed[0].Offset || len(made) != 1 || made[0].ID != got.Pushed[1].MessageID {
		t.Errorf("stored %+v and %+v, want what was answered: %+v", in, made, got.Pushed)
	}
	if c, err := db.Cursors(t.Context(), ownGroup, []int64{p.PartitionID}); err != nil || len(c) != 1 || c[0].Offset != 1 {
		t.Errorf("cursor %+v, %v; want 1", c, err)
	}

	// A rollback that is repeated stays one.
	l.lose("lost-rollback")
	again := transact(t, e, Transaction{Operations: []Operation{pushOp(msg("in", "", "", "lost-rollback"), msg("new", "", "b", "2"))}})
	if again.Reason != RollbackDuplicate || l.count() != 3 || len(fetchAll(t, e, "in", "")) != 2 {
		t.Errorf("rollback: %+v, %d answers lost", again, l.count())
	}

	l.lose("lost-timer")
	timers, err := e.Timers(t.Context(), []TimerOp{{Queue: "later", Key: "lost-timer", Payload: []byte("1"), Delay: time.Hour}})
	if err != nil || timers[0].Status != TimerScheduled || l.count() != 4 {
		t.Errorf("timer: %+v, %v, %d answers lost; want it scheduled, not rescheduled", timers, err, l.count())
	}
}
