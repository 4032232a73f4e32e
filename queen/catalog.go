package queen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"queenmq/store"
)

// catalog is what this broker remembers of queues and partitions. It may say
// "here it is"; that something does not exist is always asked of the database.
type catalog struct {
	db            *store.DB
	partitionsMax int // evict queues beyond this many cached partitions
	// repeated makes a call until its outcome is known. Set before the first use.
	repeated func(context.Context, func(context.Context) error) error
	// unwindowed is told of each partition whose window has become 0. Set before the first use.
	unwindowed func(partition int64)

	mu         sync.RWMutex
	byName     map[string]*queue
	byTopic    map[uuid.UUID]*queue
	partitions int // cached: the sum of what each queue counts for

	loading sync.Mutex   // one load at a time: a crowd asking for one new name costs one statement
	version int64        // catalog version last seen; owned by refresh
	epoch   int32        // incarnation it was seen in; owned by refresh
	seen    atomic.Int64 // both of them, for others to compare
}

func newCatalog(db *store.DB, partitionsMax int) *catalog {
	return &catalog{
		db: db, partitionsMax: partitionsMax, epoch: db.Incarnation().Epoch,
		byName: map[string]*queue{}, byTopic: map[uuid.UUID]*queue{},
		repeated:   func(ctx context.Context, call func(context.Context) error) error { return call(ctx) },
		unwindowed: func(int64) {},
	}
}

// cached answers from memory only.
func (c *catalog) cached(ref QueueRef) *queue {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if ref.Name != "" {
		return c.byName[ref.Name]
	}
	return c.byTopic[ref.TopicID]
}

// queues resolves refs in order, loading what is not cached in one statement.
func (c *catalog) queues(ctx context.Context, refs []QueueRef) ([]*queue, error) {
	out := make([]*queue, len(refs))
	missing := false
	for i, r := range refs {
		out[i] = c.cached(r)
		missing = missing || out[i] == nil
	}
	if !missing {
		return out, nil
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	var names []string
	var ids []uuid.UUID
	for i, r := range refs {
		if out[i] != nil {
			continue
		}
		if out[i] = c.cached(r); out[i] != nil {
			continue
		}
		switch {
		case r.Name == "":
			ids = append(ids, r.TopicID)
		case ValidateName("queue", r.Name) == nil: // PostgreSQL refuses some of the others, and the rest with them
			names = append(names, r.Name)
		}
	}
	if len(names)+len(ids) == 0 {
		return out, nil
	}
	rows, err := c.db.Queues(ctx, names, ids)
	if err != nil {
		return nil, storeError("look up queues", err)
	}
	for _, row := range rows {
		if _, err := c.load(ctx, row); err != nil {
			return nil, err
		}
	}
	for i, r := range refs {
		if out[i] == nil {
			out[i] = c.cached(r)
		}
	}
	return out, nil
}

// queue resolves one ref; ErrUnknownQueue or ErrUnknownQueueID when there is none.
func (c *catalog) queue(ctx context.Context, ref QueueRef) (*queue, error) {
	if q := c.cached(ref); q != nil {
		return q, nil
	}
	qs, err := c.queues(ctx, []QueueRef{ref})
	if err != nil {
		return nil, err
	}
	if qs[0] == nil {
		return nil, unknownQueue(ref)
	}
	return qs[0], nil
}

func unknownQueue(ref QueueRef) error {
	if ref.Name == "" {
		return fmt.Errorf("%w: %s", ErrUnknownQueueID, ref.TopicID)
	}
	return fmt.Errorf("%w: %q", ErrUnknownQueue, ref.Name)
}

// partition resolves a partition by number.
func (c *catalog) partition(ctx context.Context, ref PartitionRef) (*partition, error) {
	return c.lookups(1, func(int) QueueRef { return ref.Queue }).partition(ctx, ref)
}

// named resolves a partition by name, making queue and partition on first use, and
// with them what the messages after it, valid ones, will ask for: a call for each would be a
// commit for each.
func (c *catalog) named(ctx context.Context, queueName, name string, after ...Message) (*partition, error) {
	q := c.cached(QueueRef{Name: queueName})
	if q != nil {
		if p := q.named(name); p != nil {
			return p, nil
		}
	}
	if q == nil {
		var err error
		if q, err = c.queue(ctx, QueueRef{Name: queueName}); err != nil && !errors.Is(err, ErrUnknownQueue) {
			return nil, err
		}
	}
	if q != nil && q.describe().Fixed {
		if p := q.named(name); p != nil {
			return p, nil
		}
		return nil, fmt.Errorf("%w: %q has a fixed set of %d partitions named \"0\" to \"%d\", none is %q",
			ErrUnknownPartition, queueName, q.describe().Partitions, q.describe().Partitions-1, name)
	}
	if more := q.lacking(queueName, name, after); len(more) > 0 {
		var row store.QueueRow
		if err := c.repeated(ctx, func(ctx context.Context) (err error) {
			row, err = c.db.EnsurePartitions(ctx, queueName, append([]string{name}, more...))
			return err
		}); err != nil {
			return nil, storeError("make partitions", err)
		}
		if p, err := c.loadNamed(ctx, row, name); p != nil || err != nil {
			return p, err
		}
	}
	var row store.QueueRow
	var part store.PartitionRow
	if err := c.repeated(ctx, func(ctx context.Context) (err error) {
		row, part, err = c.db.EnsurePartition(ctx, queueName, name)
		return err
	}); err != nil {
		return nil, storeError("make partition", err)
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	q, err := c.load(ctx, row, part)
	if err != nil {
		return nil, err
	}
	if p := q.named(part.Name); p != nil {
		return p, nil
	}
	// The queue was loaded before the partition was there.
	if err := c.fill(ctx, q); err != nil {
		return nil, err
	}
	if p := q.named(part.Name); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: %q was deleted while being made", ErrUnknownQueue, queueName)
}

// loadNamed is load for who wants one of the partitions; nil when it has none of that name.
func (c *catalog) loadNamed(ctx context.Context, row store.QueueRow, name string) (*partition, error) {
	c.loading.Lock()
	defer c.loading.Unlock()
	q, err := c.load(ctx, row)
	if err != nil {
		return nil, err
	}
	return q.named(name), nil
}

// load puts a row into the cache, with its partitions if it is new or has grown:
// those that the caller has, and what is missing then. Called with loading held.
func (c *catalog) load(ctx context.Context, row store.QueueRow, parts ...store.PartitionRow) (*queue, error) {
	d := describeRow(row)
	c.mu.RLock()
	q := c.byTopic[d.TopicID]
	c.mu.RUnlock()
	if q == nil {
		q = &queue{id: row.ID, topic: d.TopicID, byPart: map[string]*partition{}, ids: map[int64]*partition{}}
	}
	if row.Version >= q.version { // else the row was read before one that is here already
		q.version = row.Version
		if was := q.desc.Swap(&d); was != nil {
			c.reconfigured(q, &was.Options, &d.Options)
		}
	}
	if len(parts) > 0 && parts[0].Number == q.size() {
		if err := q.grow(parts); err != nil {
			return nil, err
		}
	}
	if q.size() < d.Partitions {
		if err := c.fill(ctx, q); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.byName[d.Name]; old != nil && old != q {
		c.dropLocked(old)
	}
	size := q.size()
	c.partitions += size - q.counts
	q.counts = size
	c.byName[d.Name], c.byTopic[d.TopicID] = q, q
	for name, old := range c.byName {
		if c.partitions <= c.partitionsMax || len(c.byName) == 1 {
			break
		}
		if name != d.Name {
			c.dropLocked(old) // at the bound: forget any other; it is loaded again when asked for
		}
	}
	return q, nil
}

// reconfigured tells of a window that was taken away.
func (c *catalog) reconfigured(q *queue, was, is *QueueOptions) {
	if was.DedupWindowSeconds == 0 || is.DedupWindowSeconds != 0 {
		return
	}
	for _, p := range q.all() {
		c.unwindowed(p.id)
	}
}

// fill reads the partitions that a queue has grown by. Called with loading held.
func (c *catalog) fill(ctx context.Context, q *queue) error {
	rows, err := c.db.Partitions(ctx, q.id, q.size(), math.MaxInt32)
	if err != nil {
		return storeError("list partitions", err)
	}
	return q.grow(rows)
}

// reload reads a queue's row and partitions again.
func (c *catalog) reload(ctx context.Context, q *queue) error {
	c.loading.Lock()
	defer c.loading.Unlock()
	rows, err := c.db.Queues(ctx, nil, []uuid.UUID{q.topic})
	if err != nil {
		return storeError("look up queue", err)
	}
	if len(rows) == 0 {
		c.drop(q)
		return unknownQueue(QueueRef{Name: q.name()})
	}
	_, err = c.load(ctx, rows[0])
	return err
}

// drop forgets a queue, which is looked up again when next asked for.
func (c *catalog) drop(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(q)
}

func (c *catalog) dropLocked(q *queue) {
	q.gone.Store(true)
	if c.byTopic[q.topic] == q {
		delete(c.byTopic, q.topic)
		c.partitions -= q.counts
		q.counts = 0
	}
	if c.byName[q.name()] == q {
		delete(c.byName, q.name())
	}
}
