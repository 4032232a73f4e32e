package queen

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"queenmq/dedup"
)

// IDBytesMax bounds a client's id (transactionId).
const IDBytesMax = 65_535

// push is one call of Push: it is done when no item is open.
type push struct {
	open atomic.Int64
	done chan struct{}
}

func (p *push) finish() {
	if p.open.Add(-1) == 0 {
		close(p.done)
	}
}

func (it *pushItem) settle(s PushStatus, id uuid.UUID, offset int64, err error) {
	if it.settled {
		panic("BUG: a message settled twice")
	}
	it.settled = true
	it.out.Status, it.out.MessageID, it.out.Offset, it.out.Err = s, id, offset, err
	if it.msg.ID == nil && s != Failed {
		it.out.TransactionID = []byte(id.String())
	}
	it.push.finish()
}

// Push stores messages and answers one Pushed per message, in order. The
// first of equal (queue, partition, id) wins, whatever the window; later ones
// answer duplicate with its outcome. It returns when every message has an
// outcome, or when ctx ends, with ErrOutcomeUnknown for those that have none. Only
// in that case are the messages read any further.
func (e *Engine) Push(ctx context.Context, msgs []Message) []Pushed {
	out := make([]Pushed, len(msgs))
	pu := &push{done: make(chan struct{})}
	pu.open.Store(1) // ours, until all are enqueued
	firsts := requestFirsts.Get().(*dedup.Firsts)
	type target struct {
		p     *partition
		items []*pushItem
	}
	var order []*target
	byPartition := map[*partition]*target{}
	type follower struct{ at, leader int }
	var followers []follower
	size := 0
	made := make([]pushItem, len(msgs)) // one allocation for all
	var t *target                       // of the message before, …
	var named *Message                  // … where that was named there, not chosen
	for i := range msgs {
		m := &msgs[i]
		out[i] = Pushed{Status: Failed, TransactionID: m.ID, Partition: m.Partition, Offset: -1}
		n := nativeSize(m)
		if named == nil || named.Queue != m.Queue || named.Partition != m.Partition {
			named = nil
			p, err := e.pushTarget(ctx, m, msgs[i+1:])
			if err != nil {
				out[i].Err = err
				continue
			}
			if t = byPartition[p]; t == nil {
				t = &target{p: p}
				if len(order) == 0 { // mostly it has them all
					t.items = make([]*pushItem, 0, len(msgs))
				}
				byPartition[p] = t
				order = append(order, t)
			}
			if m.Partition != "" {
				named = m
			}
		}
		err := validateID(m.ID)
		if err == nil {
			err = fits(m, n, t.p)
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i].Partition = t.p.name
		made[i] = newPushItem(m, n, &out[i], pu)
		if l, follows := firsts.Lead(m.Queue, t.p.name, m.ID, made[i].hash, i); follows {
			followers = append(followers, follower{i, l})
			continue
		}
		t.items = append(t.items, &made[i])
		size += n
	}
	apart := firsts.Apart()
	if firsts.Reset(); len(msgs) <= pooledFirstsMax {
		requestFirsts.Put(firsts)
	}
	if size > 0 {
		if err := e.writer.budget.acquire(ctx, size); err != nil {
			for _, t := range order {
				for _, it := range t.items {
					it.out.Err = err
				}
			}
			order, size = nil, 0
		}
	}
	for _, t := range order {
		pu.open.Add(int64(len(t.items)))
	}
	for _, t := range order {
		e.enqueuePush(t.p, t.items, apart)
	}
	pu.finish()
	select {
	case <-pu.done:
		e.writer.budget.release(size)
	case <-ctx.Done():
		// The write goes on; its outcome is what a retry will be told.
		go func() { <-pu.done; e.writer.budget.release(size) }()
		lost := make([]Pushed, len(msgs))
		for i := range lost {
			lost[i] = Pushed{
				Status: Failed, TransactionID: msgs[i].ID, Partition: msgs[i].Partition, Offset: -1,
				Err: fmt.Errorf("%w: the request ended first; retry", ErrOutcomeUnknown),
			}
		}
		return lost
	}
	for _, f := range followers {
		out[f.at] = out[f.leader]
		if out[f.leader].Status == Queued {
			out[f.at].Status = Duplicate
		}
		e.metrics.folded.Inc()
	}
	return out
}

// requestFirsts keeps tables of usual size, like segmentFirsts.
var requestFirsts = sync.Pool{New: func() any { return new(dedup.Firsts) }}

// enqueuePush cuts one push's messages for a partition into entries of at most a segment.
func (e *Engine) enqueuePush(p *partition, items []*pushItem, apart bool) {
	for len(items) > 0 {
		n, size := 0, 0
		for n < len(items) {
			s := items[n].size
			if n > 0 && size+s > e.cfg.SegmentBytesMax {
				break
			}
			size += s
			n++
		}
		e.writer.enqueue(p, &entry{items: items[:n:n], apart: apart, ref: QueueRef{Name: items[0].msg.Queue}})
		items = items[n:]
	}
}

// newPushItem is a message, of that nativeSize, that was checked and leads.
func newPushItem(m *Message, size int, out *Pushed, pu *push) pushItem {
	it := pushItem{msg: m, size: size, out: out, push: pu}
	if m.ID != nil {
		it.hash = dedup.Of(m.ID)
		it.hi, it.lo, it.uid = ParseID(m.ID)
	}
	return it
}

// pushTarget checks the names and the id of a message and finds its partition. What has
// to be made is made for the messages after it too.
func (e *Engine) pushTarget(ctx context.Context, m *Message, after []Message) (*partition, error) {
	if err := validateMessage(m); err != nil {
		return nil, err
	}
	return e.choosePartition(ctx, m, after...)
}

// validateMessage checks names and id.
func validateMessage(m *Message) error {
	if err := validateNames(m); err != nil {
		return err
	}
	return validateID(m.ID)
}

func validateNames(m *Message) error {
	if err := ValidateName("queue", m.Queue); err != nil {
		return err
	}
	if m.Partition != "" {
		if err := ValidateName("partition", m.Partition); err != nil {
			return err
		}
	}
	return nil
}

func validateID(id []byte) error {
	if id != nil && (len(id) == 0 || len(id) > IDBytesMax) {
		return fmt.Errorf("%w: a transactionId has 1 to %d bytes, this one has %d; leave it out to have one minted",
			ErrInvalidRequest, IDBytesMax, len(id))
	}
	return nil
}

// fits checks whether a message, of that nativeSize, can go to a partition.
func fits(m *Message, size int, p *partition) error {
	o := &p.queue.desc.Load().Options
	if o.CleanupCompact && m.Key == nil {
		return fmt.Errorf("%w: queue %q is compacted and takes no message without a key", ErrInvalidRecord, m.Queue)
	}
	if limit := o.MaxMessageBytes; size > limit {
		return fmt.Errorf("%w: the message takes %d bytes as a record batch, queue %q allows %d (maxMessageBytes)",
			ErrTooLarge, size, m.Queue, limit)
	}
	return nil
}

// choosePartition picks by name; in a fixed queue without a name by key as
// Kafka's clients do, else by id so that a retry meets its original, else in turn.
func (e *Engine) choosePartition(ctx context.Context, m *Message, after ...Message) (*partition, error) {
	name := m.Partition
	if name == "" {
		q, err := e.catalog.queue(ctx, QueueRef{Name: m.Queue})
		if err == nil && q.describe().Fixed {
			n := q.size()
			var i int
			switch {
			case n == 0:
				return nil, fmt.Errorf("%w: %q has no partitions", ErrUnknownPartition, m.Queue)
			case m.Key != nil:
				i = keyPartition(m.Key, n)
			case m.ID != nil:
				i = idPartition(dedup.Of(m.ID), n)
			default:
				i = int(q.turn.Add(1) % uint32(n))
			}
			return e.catalog.named(ctx, m.Queue, strconv.Itoa(i))
		}
		name = DefaultPartition
	}
	return e.catalog.named(ctx, m.Queue, name, after...)
}

// redirect hands an entry whose queue was deleted to the queue that has its
// name now, once.
func (e *Engine) redirect(en *entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.cfg.WriteTimeout)
	defer cancel()
	if en.batch != nil {
		p, err := e.catalog.partition(ctx, PartitionRef{Queue: QueueRef{Name: en.ref.Name}, Number: en.number})
		if err != nil {
			e.writer.failEntry(en, err)
			return
		}
		e.writer.enqueue(p, en)
		return
	}
	open := en.items[:0:0]
	for _, it := range en.items {
		if !it.settled {
			open = append(open, it)
		}
	}
	for _, it := range open {
		p, err := e.choosePartition(ctx, it.msg)
		if err != nil {
			it.settle(Failed, uuid.UUID{}, -1, err)
			continue
		}
		e.writer.enqueue(p, &entry{items: []*pushItem{it}, ref: en.ref, retried: true})
	}
}
