package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"queenmq/queen"
)

// fake is an engine in a map: a small honest broker without persistence. Ids
// and times are counted, so that answers are known before they are made.
type fake struct {
	mu      sync.Mutex
	now     time.Time
	ids     uint64
	queues  map[string]*fakeQueue
	parts   map[int64]*fakePartition
	changed chan struct{} // closed and replaced by a push
	keys    fakeKeys
	timers  []fakeTimer

	countedAt time.Time // what Count and Lagging say; zero: now

	down   error // every call answers it
	poison string
	waits  chan struct{} // told of each pop that begins to wait

	// What was asked last.
	lastPop  queen.PopRequest
	released []uuid.UUID
	// beforeAnswer is called when a pop has something to give.
	beforeAnswer func()
	dead         []queen.DeadLetter
	lastAcks     []queen.Ack
	lastFetch    queen.FetchRequest
	lastKV       []queen.KVOp
	lastSeek     queen.SeekTo
	lastTx       queen.Transaction
	lastTimers   []queen.TimerOp
}

type fakeQueue struct {
	queen.Queue
	parts []*fakePartition
}

type fakePartition struct {
	queen.Partition
	queue   string
	msgs    []queen.StoredMessage
	cursors map[string]int64
	leases  map[string]fakeLease
}

type fakeLease struct {
	id   uuid.UUID
	ends time.Time
	upTo int64
}

func newFake() *fake {
	return &fake{
		now:    time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC),
		queues: map[string]*fakeQueue{}, parts: map[int64]*fakePartition{},
		changed: make(chan struct{}), waits: make(chan struct{}, 1000),
	}
}

func (f *fake) id() uuid.UUID {
	f.ids++
	return uuid.MustParse(fmt.Sprintf("01900000-0000-7000-8000-%012x", f.ids))
}

func fakeName(name string) error {
	if len(name) < 1 || len(name) > 249 || !utf8.ValidString(name) {
		return fmt.Errorf("%w: 1 to 249 bytes of UTF-8", queen.ErrInvalidName)
	}
	for _, c := range []byte(name) {
		if c < 0x20 {
			return fmt.Errorf("%w: a control character", queen.ErrInvalidName)
		}
	}
	return nil
}

func (f *fake) queue(name string, o queen.QueueOptions) *fakeQueue {
	q := f.queues[name]
	if q == nil {
		q = &fakeQueue{Queue: queen.Queue{
			ID: int64(len(f.queues) + 1), Name: name, TopicID: f.id(), Options: o, CreatedAt: f.now,
		}}
		f.queues[name] = q
	}
	return q
}

func (q *fakeQueue) find(name string) *fakePartition {
	for _, p := range q.parts {
		if p.Name == name {
			return p
		}
	}
	return nil
}

func (f *fake) partition(q *fakeQueue, name string) *fakePartition {
	p := q.find(name)
	if p == nil {
		p = &fakePartition{
			Partition: queen.Partition{ID: int64(len(f.parts) + 1), Number: len(q.parts), Name: name},
			queue:     q.Name, cursors: map[string]int64{}, leases: map[string]fakeLease{},
		}
		q.parts, f.parts[p.ID] = append(q.parts, p), p
		q.Partitions = len(q.parts)
	}
	return p
}

func (f *fake) Push(_ context.Context, msgs []queen.Message) []queen.Pushed {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]queen.Pushed, len(msgs))
	for i, m := range msgs {
		out[i] = f.push(m)
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return out
}

func (f *fake) push(m queen.Message) queen.Pushed {
	failed := func(err error) queen.Pushed { return queen.Pushed{Status: queen.Failed, Offset: -1, Err: err} }
	name := m.Partition
	if name == "" {
		name = queen.DefaultPartition
	}
	switch {
	case f.down != nil:
		return failed(f.down)
	case f.poison != "" && bytes.Contains(m.Value, []byte(f.poison)):
		return failed(queen.ErrOutcomeUnknown)
	case fakeName(m.Queue) != nil:
		return failed(fakeName(m.Queue))
	case fakeName(name) != nil:
		return failed(fakeName(name))
	}
	q := f.queue(m.Queue, queen.DefaultOptions())
	p := q.find(name)
	if p == nil && q.Fixed {
		return failed(queen.ErrUnknownPartition)
	}
	p = f.partition(q, name)
	window := time.Duration(q.Options.DedupWindowSeconds) * time.Second
	for _, old := range p.msgs {
		if m.ID != nil && window > 0 && bytes.Equal(old.TransactionID, m.ID) && !old.CreatedAt.Before(f.now.Add(-window)) {
			return queen.Pushed{Status: queen.Duplicate, MessageID: old.ID, TransactionID: old.TransactionID, Partition: name, Offset: old.Offset}
		}
	}
	s := queen.StoredMessage{
		ID: f.id(), TransactionID: bytes.Clone(m.ID), Offset: p.LogEnd, Partition: name, PartitionID: p.ID,
		Key: bytes.Clone(m.Key), Value: bytes.Clone(m.Value), Headers: slices.Clone(m.Headers), TraceID: m.TraceID,
		Timestamp: f.now, CreatedAt: f.now,
	}
	for i, h := range s.Headers { // the request's memory, like the rest
		s.Headers[i].Value = bytes.Clone(h.Value)
	}
	if m.ID == nil {
		s.TransactionID = []byte(s.ID.String())
	}
	p.msgs = append(p.msgs, s)
	p.LogEnd++
	return queen.Pushed{Status: queen.Queued, MessageID: s.ID, TransactionID: s.TransactionID, Partition: name, Offset: s.Offset}
}

func (f *fake) Pop(ctx context.Context, r queen.PopRequest) ([]queen.Popped, error) {
	late := time.NewTimer(r.Wait)
	defer late.Stop()
	for {
		f.mu.Lock()
		if r.Room == nil {
			panic("a pop without room for its answer")
		}
		f.lastPop = r
		f.lastPop.Room = nil
		got, err := f.pop(r)
		changed := f.changed
		f.mu.Unlock()
		if err != nil || len(got) > 0 || r.Wait == 0 {
			if f.beforeAnswer != nil {
				f.beforeAnswer()
			}
			return got, err
		}
		select {
		case f.waits <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (f *fake) pop(r queen.PopRequest) ([]queen.Popped, error) {
	if f.down != nil {
		return nil, f.down
	}
	if r.Queue == "" {
		for _, q := range f.queues {
			if o := q.Options; (r.Namespace == "" || o.Namespace == r.Namespace) && (r.Task == "" || o.Task == r.Task) {
				one := r
				one.Queue = q.Name
				if got, err := f.pop(one); err != nil || len(got) > 0 {
					return got, err
				}
			}
		}
		return nil, nil
	}
	if err := fakeName(r.Queue); err != nil {
		return nil, err
	}
	q := f.queues[r.Queue]
	if q == nil {
		return nil, nil
	}
	var all []queen.Popped
	var lease uuid.UUID
	for _, p := range q.parts {
		if len(all) == max(r.Partitions, 1) || r.Batch <= 0 && len(all) > 0 {
			break
		}
		if r.Partition != "" && p.Name != r.Partition {
			continue
		}
		at, known := p.cursors[r.Group]
		if !known && r.FromEnd {
			at = p.LogEnd
			p.cursors[r.Group] = at
		}
		if at >= p.LogEnd || p.leases[r.Group].ends.After(f.now) {
			continue
		}
		upTo := min(at+int64(max(r.Batch, 1)), p.LogEnd)
		got := queen.Popped{Queue: q.Name, Partition: p.Name, PartitionID: p.ID, Group: r.Group, Messages: p.msgs[at:upTo]}
		if r.AutoAck {
			p.cursors[r.Group] = upTo
			return []queen.Popped{got}, nil
		}
		ends := r.Lease
		if ends == 0 {
			ends = 300 * time.Second
		}
		if lease == uuid.Nil {
			lease = f.id()
		}
		got.LeaseID = lease
		p.leases[r.Group] = fakeLease{id: lease, ends: f.now.Add(ends), upTo: upTo}
		all = append(all, got)
		r.Batch -= len(got.Messages)
	}
	return all, nil
}

func (f *fake) Release(_ context.Context, lease uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released = append(f.released, lease)
	for _, p := range f.parts {
		for g, l := range p.leases {
			if l.id == lease {
				delete(p.leases, g)
			}
		}
	}
}

func (f *fake) Extend(_ context.Context, lease uuid.UUID, by time.Duration) (x queen.Extended, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down != nil {
		return x, f.down
	}
	if by == 0 {
		by = 300 * time.Second
	}
	for _, p := range f.parts {
		for g, l := range p.leases {
			if l.id == lease && l.ends.After(f.now) {
				l.ends = f.now.Add(by)
				p.leases[g] = l
				x.Partitions++
				x.Until = l.ends
			}
		}
	}
	return x, nil
}

func (f *fake) Ack(_ context.Context, acks []queen.Ack) []queen.Acked {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastAcks = acks
	out := make([]queen.Acked, len(acks))
	for i, a := range acks {
		out[i].Err = f.ack(a)
		out[i].Dead = out[i].Err == nil && a.Status == queen.AckDead
	}
	return out
}

func (f *fake) ack(a queen.Ack) error {
	if f.down != nil {
		return f.down
	}
	p := f.parts[a.PartitionID]
	if p == nil {
		return fmt.Errorf("%w: no such partition", queen.ErrUnresolvable)
	}
	lease := p.leases[a.Group]
	if !lease.ends.After(f.now) || a.LeaseID != uuid.Nil && a.LeaseID != lease.id {
		return fmt.Errorf("ack: %w", queen.ErrLeaseLost)
	}
	for at := p.cursors[a.Group]; at < lease.upTo; at++ {
		if !bytes.Equal(p.msgs[at].TransactionID, a.TransactionID) {
			continue
		}
		done := a.Status == queen.AckCompleted || a.Status == queen.AckDead
		if done {
			p.cursors[a.Group] = at + 1
		}
		if a.Status == queen.AckDead {
			for _, q := range f.queues {
				if slices.ContainsFunc(q.parts, func(o *fakePartition) bool { return o == p }) {
					f.bury(q.Name, &a, p.msgs[at])
				}
			}
		}
		if !done || at+1 == lease.upTo {
			delete(p.leases, a.Group)
		}
		return nil
	}
	return fmt.Errorf("%w: not in this lease", queen.ErrUnresolvable)
}

func (f *fake) Fetch(_ context.Context, r queen.FetchRequest) ([]queen.Fetched, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Room == nil {
		panic("a fetch without room for its answer")
	}
	f.lastFetch = r
	f.lastFetch.Room = nil
	out := make([]queen.Fetched, len(r.Items))
	left := r.MaxBytes
	for i, it := range r.Items {
		name := it.Partition
		if name == "" {
			name = queen.DefaultPartition
		}
		q := f.queues[it.Queue]
		if q == nil {
			out[i] = queen.Fetched{Err: queen.ErrUnknownQueue, LogStart: -1, HighWatermark: -1}
			continue
		}
		p := q.find(name)
		if p == nil {
			out[i] = queen.Fetched{Err: queen.ErrUnknownPartition, LogStart: -1, HighWatermark: -1}
			continue
		}
		out[i] = queen.Fetched{LogStart: p.LogStart, HighWatermark: p.LogEnd}
		if it.Offset < p.LogStart || it.Offset > p.LogEnd {
			out[i].Err = queen.ErrOffsetOutOfRange
			continue
		}
		for at := it.Offset; at < p.LogEnd; at++ {
			m := p.msgs[at]
			if size := len(m.Value); size <= left {
				left -= size
				out[i].Messages = append(out[i].Messages, m)
			}
		}
	}
	return out, f.down
}

func (f *fake) Configure(_ context.Context, name string, patch queen.OptionsPatch) (queen.Configured, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmp2(f.down, fakeName(name)); err != nil {
		return queen.Configured{}, err
	}
	created := f.queues[name] == nil
	q := f.queue(name, queen.DefaultOptions())
	before := q.Options
	q.Options = patch.Apply(before, queen.DefaultOptions())
	return queen.Configured{Queue: q.Queue, Before: before, Created: created}, nil
}

func cmp2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (f *fake) Queues(_ context.Context, refs []queen.QueueRef) ([]queen.QueueAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]queen.QueueAnswer, len(refs))
	for i, r := range refs {
		if q := f.queues[r.Name]; q != nil {
			out[i].Queue = q.Queue
		} else {
			out[i].Err = cmp2(fakeName(r.Name), queen.ErrUnknownQueue)
		}
	}
	return out, f.down
}

func (f *fake) AllQueues(context.Context) ([]queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []queen.Queue
	for _, q := range f.queues {
		out = append(out, q.Queue)
	}
	slices.SortFunc(out, func(a, b queen.Queue) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return out, f.down
}

func (f *fake) Partitions(_ context.Context, queue string, from, limit int) (out []queen.Partition, next int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	if q == nil {
		return nil, 0, queen.ErrUnknownQueue
	}
	if limit <= 0 || limit > queen.LagPageMax {
		limit = queen.LagPageMax
	}
	for _, p := range q.parts {
		switch {
		case p.Number < from:
		case len(out) == limit:
			return out, p.Number, f.down
		default:
			out = append(out, p.Partition)
		}
	}
	return out, 0, f.down
}

func (f *fake) DeleteQueue(_ context.Context, ref queen.QueueRef) (queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[ref.Name]
	if q == nil {
		return queen.Queue{}, queen.ErrUnknownQueue
	}
	delete(f.queues, ref.Name)
	for _, p := range q.parts {
		delete(f.parts, p.ID)
	}
	return q.Queue, f.down
}

func (f *fake) Ready(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

func (f *fake) Cluster() queen.Cluster {
	return queen.Cluster{
		ID: "AAAAAAAAAAAAAAAAAAAAAA", Self: 1, Epoch: 4,
		Brokers: []queen.Broker{{ID: 1, Host: "127.0.0.1", Port: 9092, Slots: 64}},
	}
}
