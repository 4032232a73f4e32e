package queen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"queenmq/dedup"
	"queenmq/store"
)

// The bounds of a transaction.
const (
	TransactionPushesMax     = 10_000
	TransactionAcksMax       = 10_000
	TransactionPartitionsMax = 256      // pushed to
	TransactionBytesMax      = 16 << 20 // of what is pushed, as record batches
	transactionAttempts      = 5        // to make the call anew when what it assumed has changed
)

// Transaction is pushes, acks, operations on keys and on timers that take effect
// together or not at all.
type Transaction struct {
	Operations []Operation
	KV         []KVOp
	Timers     []TimerOp
}

// Operation is a push of messages, or an ack.
type Operation struct {
	Push []Message
	Ack  *Ack
}

// Rollback is why a transaction did nothing.
type Rollback string

// The reasons of a rollback. The first that applies is told, in this order.
const (
	RollbackBadRequest     Rollback = "bad_request"
	RollbackTooLarge       Rollback = "payload_too_large"
	RollbackQueueNotFound  Rollback = "queue_not_found"
	RollbackDuplicate      Rollback = "duplicate"
	RollbackAckRejected    Rollback = "ack_rejected"
	RollbackKVPrecondition Rollback = "kv_precondition"
	rollbackNone           Rollback = ""
)

// Transacted is what became of a transaction.
type Transacted struct {
	// Reason is empty for one that took effect. Else nothing of it did, Err says
	// why, and Failed is an element it is about, the first but among acks: counted over messages and
	// acks as they follow one another, then operations on keys, then on timers; −1
	// where it is about none.
	Reason Rollback
	Failed int
	Err    error
	// Pushed has one element per message, in order. An id that repeats another of
	// the transaction is Duplicate, with the other's place. After a
	// rollback for duplicates those that are stored already name their originals.
	Pushed []Pushed
	// Lost is the operation on a key that was required and did not apply.
	Lost   *KVResult
	KV     []KVResult
	Timers []TimerResult
}

// Transact does a transaction in one call. It is exact like Push: a push that is
// stored already rolls all of it back, so that a transaction repeated after a lost answer
// takes effect once where it pushes with ids of its own. The error is one of Errors and
// says that nothing is known or nothing was done; a rollback is no error.
func (e *Engine) Transact(ctx context.Context, tx Transaction) (Transacted, error) {
	t := &transaction{e: e, id: uuid.Must(uuid.NewV7())}
	if out := t.read(tx); out != nil {
		return *out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.WriteTimeout+e.cfg.CallTimeout)
	defer cancel()
	if out, err := t.resolveAcks(ctx); out != nil || err != nil {
		return orNothing(out), err
	}
	for range transactionAttempts {
		out, err := t.attempt(ctx)
		if out != nil || err != nil {
			return orNothing(out), err
		}
	}
	return Transacted{}, fmt.Errorf("%w: what the transaction is about keeps changing; retry", ErrUnavailable)
}

func orNothing(t *Transacted) Transacted {
	if t == nil {
		return Transacted{}
	}
	return *t
}

// transaction is one on its way.
type transaction struct {
	e        *Engine
	id       uuid.UUID // of the call, however often it is made anew
	again    bool      // an attempt may be under way
	gone     bool      // a queue was found deleted
	msgs     []*Message
	msgAt    []int // flat places of messages …
	acks     []Ack
	ackAt    []int // … and acks
	kvAt     int   // flat place of the first operation on keys
	ops      []KVOp
	kv       []store.KVOp
	places   [][2]int
	timerOps []TimerOp
	timers   []store.TimerOp

	cursors []store.CursorAck
	ackOf   [][]int // per cursor, its acks
	// An id to acknowledge that nobody knows. The call is made all the same: of a
	// transaction that took effect before, the duplicates are to be told.
	unresolved   error
	unresolvedAt int
}

// rollback is a verdict.
func (t *transaction) rollback(r Rollback, at int, err error) *Transacted {
	t.e.metrics.rollbacks.WithLabelValues(string(r)).Inc()
	return &Transacted{Reason: r, Failed: at, Err: err}
}

// read checks what needs no look at anything, and counts places.
func (t *transaction) read(tx Transaction) *Transacted {
	bad := func(at int, format string, args ...any) *Transacted {
		return t.rollback(RollbackBadRequest, at, fmt.Errorf("%w: "+format, append([]any{ErrInvalidRequest}, args...)...))
	}
	at, size := 0, 0
	for i := range tx.Operations {
		o := &tx.Operations[i]
		if o.Ack != nil {
			t.acks, t.ackAt = append(t.acks, *o.Ack), append(t.ackAt, at)
			at++
		}
		for k := range o.Push {
			m := &o.Push[k]
			t.msgs, t.msgAt = append(t.msgs, m), append(t.msgAt, at)
			size += nativeSize(m)
			at++
		}
	}
	t.kvAt = at
	switch {
	case at == 0 && len(tx.KV) == 0 && len(tx.Timers) == 0:
		return bad(-1, "the transaction has no operations")
	case len(t.msgs) > TransactionPushesMax:
		return t.rollback(RollbackTooLarge, -1, fmt.Errorf("%w: %d messages, a transaction has at most %d", ErrTooLarge, len(t.msgs), TransactionPushesMax))
	case len(t.acks) > TransactionAcksMax:
		return bad(-1, "%d acks, a transaction has at most %d", len(t.acks), TransactionAcksMax)
	case size > TransactionBytesMax:
		return t.rollback(RollbackTooLarge, -1, fmt.Errorf("%w: %d bytes of messages, a transaction has at most %d", ErrTooLarge, size, TransactionBytesMax))
	}
	if _, err := validateKV(tx.KV); err != nil {
		return t.refuse(at, err)
	}
	var err error
	if t.kv, t.places, err = kvCall(tx.KV); err != nil {
		return t.refuse(at, err)
	}
	t.ops = tx.KV
	t.timerOps = tx.Timers
	if t.timers, err = timerCall(tx.Timers); err != nil {
		return t.refuse(at+len(tx.KV), err)
	}
	return nil
}

// refuse is a verdict for an error of the engine about a place; nil for one that
// is none: the database is not to be had.
func (t *transaction) refuse(at int, err error) *Transacted {
	switch {
	case errors.Is(err, ErrTooLarge):
		return t.rollback(RollbackTooLarge, at, err)
	case errors.Is(err, ErrUnknownQueue):
		return t.rollback(RollbackQueueNotFound, at, err)
	case errors.Is(err, ErrInvalidName), errors.Is(err, ErrInvalidRequest), errors.Is(err, ErrUnknownPartition), errors.Is(err, ErrInvalidGroup),
		errors.Is(err, ErrInvalidRecord):
		return t.rollback(RollbackBadRequest, at, err)
	}
	return nil
}

// txTarget is a partition that is pushed to.
type txTarget struct {
	p     *partition
	fresh bool // p is still to be made
	queue string
	items []*pushItem
	f     *flight
}

// targets finds the partitions, and folds ids repeated in the transaction: the
// first wins, whatever the window.
func (t *transaction) targets(ctx context.Context, out []Pushed, pu *push) (targets []*txTarget, leader []int, verdict *Transacted, err error) {
	byName := map[[2]string]*txTarget{}
	leader = make([]int, len(t.msgs))
	var firsts dedup.Firsts
	for i, m := range t.msgs {
		p, fresh, err := t.e.findTarget(ctx, m)
		if err != nil {
			if v := t.refuse(t.msgAt[i], err); v != nil {
				return nil, nil, v, nil
			}
			return nil, nil, nil, err
		}
		leader[i] = i
		out[i] = Pushed{Status: Failed, TransactionID: m.ID, Partition: p.name, Offset: -1}
		it := newPushItem(m, nativeSize(m), &out[i], pu)
		if l, follows := firsts.Lead(m.Queue, p.name, m.ID, it.hash, i); follows {
			leader[i] = l
			continue
		}
		key := [2]string{m.Queue, p.name}
		target := byName[key]
		if target == nil {
			target = &txTarget{p: p, fresh: fresh, queue: m.Queue}
			byName[key] = target
			targets = append(targets, target)
		}
		target.items = append(target.items, &it)
		pu.open.Add(1)
	}
	if len(targets) > TransactionPartitionsMax {
		return nil, nil, t.rollback(RollbackBadRequest, -1, fmt.Errorf("%w: messages for %d partitions, a transaction has at most %d",
			ErrInvalidRequest, len(targets), TransactionPartitionsMax)), nil
	}
	// As the call takes them: those to be made last, by name.
	slices.SortFunc(targets, func(a, b *txTarget) int {
		return cmp.Or(cmp.Compare(boolInt(a.fresh), boolInt(b.fresh)), cmp.Compare(a.p.id, b.p.id),
			strings.Compare(a.queue, b.queue), strings.Compare(a.p.name, b.p.name))
	})
	return targets, leader, nil, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// findTarget finds the partition a message goes to; fresh where it is still to be
// made, together with its queue where there is none.
func (e *Engine) findTarget(ctx context.Context, m *Message) (p *partition, fresh bool, err error) {
	if err := validateMessage(m); err != nil {
		return nil, false, err
	}
	q, err := e.catalog.queue(ctx, QueueRef{Name: m.Queue})
	switch {
	case errors.Is(err, ErrUnknownQueue):
		q = &queue{}
		q.desc.Store(&Queue{Name: m.Queue, Options: DefaultOptions()})
	case err != nil:
		return nil, false, err
	case q.describe().Fixed:
		if p, err = e.choosePartition(ctx, m); err != nil {
			return nil, false, err
		}
		return p, false, fits(m, nativeSize(m), p)
	}
	name := cmp.Or(m.Partition, DefaultPartition)
	if p = q.named(name); p == nil {
		p, fresh = &partition{name: name, queue: q}, true
		p.seen(e.db.Incarnation().Epoch, 0, 0)
	}
	return p, fresh, fits(m, nativeSize(m), p)
}

// attempt makes the call once, as things are known to be. No verdict and no error
// means that they are otherwise and were looked up again.
func (t *transaction) attempt(ctx context.Context) (*Transacted, error) {
	e := t.e
	out := make([]Pushed, len(t.msgs))
	pu := &push{done: make(chan struct{})}
	pu.open.Store(1) // ours: nobody waits for it
	targets, leader, verdict, err := t.targets(ctx, out, pu)
	if verdict != nil || err != nil {
		return verdict, err
	}
	var known []*partition
	size := 0
	for _, g := range targets {
		if !g.fresh {
			known = append(known, g.p)
		}
		for _, it := range g.items {
			size += it.size
		}
	}
	if err := e.writer.budget.acquire(ctx, size); err != nil {
		return nil, err
	}
	defer e.writer.budget.release(size)
	release, err := e.writer.turns(ctx, known)
	if err != nil {
		return nil, err
	}
	defer release()

	call, err := t.call(ctx, targets)
	if err != nil {
		return nil, err
	}
	var got store.Transacted
	err = e.repeated(ctx, "transaction", func(ctx context.Context, again bool) (err error) {
		t.again = t.again || again
		got, err = e.db.Transact(ctx, t.id, t.again, call)
		return err
	})
	if err != nil {
		return nil, err
	}
	if got.Status == store.TransactionCommitted {
		t.learn(ctx, targets, got.Segments)
		return t.committed(out, leader, got), nil
	}
	return t.refused(ctx, targets, out, got)
}

// call makes flights of what goes to the targets, whose turns are held, and the call of
// them and of all else.
func (t *transaction) call(ctx context.Context, targets []*txTarget) (*store.Transaction, error) {
	call := &store.Transaction{KV: t.kv, Timers: t.timers, Acks: t.cursors}
	for i, g := range targets {
		g.f = &flight{p: g.p, whole: true, seg: &openSegment{entries: []*entry{{items: g.items}}}}
		if deadline, ok := ctx.Deadline(); ok {
			g.f.seg.deadline = deadline
		}
		if !t.e.writer.prepare(ctx, g.f) {
			return nil, cmp.Or(g.items[0].out.Err, ErrUnavailable)
		}
		call.Segments = append(call.Segments, g.f.call)
		if g.fresh {
			call.New = append(call.New, store.NewPartition{Segment: i, Queue: g.queue, Name: g.p.name})
		}
	}
	return call, nil
}

// committed is the answer of a call that took effect.
func (t *transaction) committed(out []Pushed, leader []int, got store.Transacted) *Transacted {
	t.released(got.Acks)
	t.e.timersSet(t.timerOps)
	for i, l := range leader {
		if l != i {
			out[i] = out[l]
			out[i].Status = Duplicate
			t.e.metrics.duplicates(layerRequest, 1)
		}
	}
	done := &Transacted{Failed: -1, Pushed: out, Timers: timerAnswer(t.timerOps, t.timers, got.Timers)}
	if len(t.ops) > 0 {
		done.KV = kvAnswer(t.ops, t.places, got.KV).Results
	}
	t.e.metrics.transactions.Inc()
	return done
}

// refused is the verdict on a call that did nothing; none where what it assumed is
// otherwise, and was looked up again.
func (t *transaction) refused(ctx context.Context, targets []*txTarget, out []Pushed, got store.Transacted) (*Transacted, error) {
	switch got.Status {
	case store.TransactionDuplicate:
		return t.duplicates(targets, out, got.Dups), nil
	case store.TransactionAck:
		return t.ackRefused(got.At, got.Err), nil
	case store.TransactionKV:
		a := kvAnswer(t.ops, t.places, got.KV)
		lost := &a.Results[a.Lost]
		v := t.rollback(RollbackKVPrecondition, t.kvAt+a.Lost, fmt.Errorf("the required condition on %q in %q does not hold (%s)",
			t.ops[a.Lost].Key, t.ops[a.Lost].NS, lost.Reason))
		v.Lost = lost
		return v, nil
	default:
		return t.lookAgain(ctx, targets, got)
	}
}

// lookAgain loads what a call found otherwise than assumed.
func (t *transaction) lookAgain(ctx context.Context, targets []*txTarget, got store.Transacted) (*Transacted, error) {
	c := t.e.catalog
	reload := func(q *queue) error {
		if q.id == 0 {
			return nil // not known here before; the next attempt asks
		}
		if err := c.reload(ctx, q); err != nil && !errors.Is(err, ErrUnknownQueue) && !errors.Is(err, ErrUnknownQueueID) {
			return err
		}
		return nil
	}
	switch got.Status {
	case store.TransactionWindow:
		return nil, reload(targets[got.At].p.queue)
	case store.TransactionGone:
		g := targets[got.At]
		if t.gone {
			at := t.msgAt[slices.Index(t.msgs, g.items[0].msg)]
			return t.refuse(at, unknownQueue(QueueRef{Name: g.queue})), nil
		}
		t.gone = true
		c.drop(g.p.queue)
		t.e.tail.forget(g.p.id)
		t.e.cache.Forget(g.p.id)
		t.e.waiters.wake(g.p.id)
		return nil, nil
	case store.TransactionStale:
		for _, g := range targets {
			if g.fresh {
				if err := reload(g.p.queue); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	default:
		panic(fmt.Sprintf("BUG: transaction status %q", got.Status))
	}
}

// learn tells memory and readers of what was stored, and messages their places.
func (t *transaction) learn(ctx context.Context, targets []*txTarget, stored []store.StoredSegment) {
	w := t.e.writer
	for i, g := range targets {
		r := &stored[i]
		if g.fresh {
			p, err := t.e.catalog.named(ctx, g.queue, g.p.name)
			if err != nil || p.id != r.Partition {
				g.f.p.id = r.Partition // unknown to the catalog; whoever asks next looks it up
			} else {
				g.f.p = p
			}
		}
		g.f.p.seen(r.Epoch, r.LogStart, r.Next)
		if r.IDHi == g.f.base.Hi && r.IDLo == g.f.base.Lo {
			w.stored(g.f, &r.SegmentResult)
			w.wakeReaders(g.f)
			continue
		}
		// An earlier attempt, made otherwise, is what took effect.
		w.tail.forget(g.f.p.id)
		w.waiters.wake(g.f.p.id)
		w.hotlist.wrote(g.f.p)
		base := IDBase{Hi: r.IDHi, Lo: r.IDLo}
		for k, it := range g.f.natives {
			it.settle(Queued, base.ID(int64(k)), r.Base+int64(k), nil)
		}
	}
}

// duplicates is the verdict where ids are stored already: each names its original.
func (t *transaction) duplicates(targets []*txTarget, out []Pushed, dups []store.SegmentDup) *Transacted {
	first := len(out)
	places := make(map[*Message]int, len(t.msgs))
	for i, m := range t.msgs {
		places[m] = i
	}
	for _, d := range dups {
		it := targets[d.Segment].f.natives[d.Index]
		it.settle(Duplicate, IDBase{Hi: d.IDHi, Lo: d.IDLo}.ID(0), d.Offset, nil)
		first = min(first, places[it.msg])
	}
	t.e.metrics.duplicates(layerLedger, len(dups))
	m := t.msgs[first]
	v := t.rollback(RollbackDuplicate, t.msgAt[first], fmt.Errorf("transactionId %q is stored already in queue %q, partition %q, at offset %d",
		m.ID, m.Queue, out[first].Partition, out[first].Offset))
	v.Pushed = out
	return v
}
