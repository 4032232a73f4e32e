package queen

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"queenmq/store"
)

// queue is a cached queue.
type queue struct {
	id    int64
	topic uuid.UUID
	desc  atomic.Pointer[Queue]
	gone  atomic.Bool // deleted: look the name up again
	turn  atomic.Uint32

	version int64 // catalog version of desc; guarded by catalog.loading
	counts  int   // towards catalog.partitions; guarded by catalog.mu

	mu     sync.RWMutex
	parts  []*partition // by number
	byPart map[string]*partition
	ids    map[int64]*partition
}

// The bounds of making partitions for messages to come.
const (
	namesMax   = 1000   // made in one call
	namesAhead = 10_000 // messages looked at
)

// lacking lists the names of partitions, each once and none of them name, that messages
// to a queue ask for and that it has not, as far as known. q may be nil: it has none.
func (q *queue) lacking(queueName, name string, msgs []Message) (names []string) {
	seen := map[string]bool{name: true}
	for i := range msgs[:min(len(msgs), namesAhead)] {
		m := &msgs[i]
		p := cmp.Or(m.Partition, DefaultPartition)
		if m.Queue != queueName || seen[p] || q != nil && q.named(p) != nil || validateMessage(m) != nil {
			continue
		}
		seen[p] = true
		if names = append(names, p); len(names) == namesMax {
			break
		}
	}
	return names
}

// grow takes in partitions, in the order of their numbers; those it has are passed by.
func (q *queue) grow(rows []store.PartitionRow) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range rows {
		if r.Number < len(q.parts) {
			continue
		}
		if r.Number != len(q.parts) {
			return fmt.Errorf("list partitions: %s has no number %d", q.name(), len(q.parts))
		}
		p := newPartition(q, r)
		q.parts = append(q.parts, p)
		q.byPart[p.name] = p
		q.ids[p.id] = p
	}
	n := len(q.parts)
	q.change(func(d *Queue) { d.Partitions = max(d.Partitions, n) })
	return nil
}

func (q *queue) describe() Queue { return *q.desc.Load() }

func (q *queue) name() string { return q.desc.Load().Name }

// change replaces the description by a changed copy.
func (q *queue) change(f func(*Queue)) {
	for {
		old := q.desc.Load()
		d := *old
		f(&d)
		if q.desc.CompareAndSwap(old, &d) {
			return
		}
	}
}

func (q *queue) size() int {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return len(q.parts)
}

func (q *queue) partition(n int32) *partition {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if n < 0 || int(n) >= len(q.parts) {
		return nil
	}
	return q.parts[n]
}

func (q *queue) named(name string) *partition {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.byPart[name]
}

func (q *queue) byID(id int64) *partition {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.ids[id]
}

// all lists the partitions by number.
func (q *queue) all() []*partition {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.parts[:len(q.parts):len(q.parts)]
}

func describeRow(r store.QueueRow) Queue {
	return Queue{
		ID: r.ID, Name: r.Name, TopicID: r.TopicID, Partitions: r.Partitions, Fixed: r.Fixed, CreatedAt: r.CreatedAt,
		Options: describeOptions(r.QueueOptions),
	}
}
