package queen

import (
	"sync"
	"sync/atomic"

	"queenmq/store"
)

// partition is what this broker remembers of one partition.
type partition struct {
	// Immutable.
	id     int64
	number int32
	name   string
	queue  *queue

	// waitedAt is when (Unix ns) a reader last waited here: until a while after,
	// the poll of other brokers' writes includes it and its mark may say "wait".
	waitedAt atomic.Int64
	// givenAt is when (Unix ns) memory was last read here beside other brokers; the
	// poll includes it then too, for its start. askedAt is when the ledger was last
	// asked for that.
	givenAt, askedAt atomic.Int64
	// unsorted counts ids stored here that no sorted run covers yet.
	unsorted atomic.Int64

	mu      sync.Mutex
	mark    mark           // guarded by mu
	pending []*openSegment // guarded by mu: oldest first; the last one may still take more
	busy    bool           // guarded by mu: on the ready list, or in flight
}

// mark is a partition's log start and next offset as last seen committed. Zero
// known means nothing is remembered. Within one incarnation next only rises.
//
// A mark that is loaded and not known was read with the list of partitions, however
// long ago. Nothing may be concluded from it but by who appends: any end below
// which its id base is not will do.
type mark struct {
	known    bool
	loaded   bool
	epoch    int32 // incarnation it was seen in
	logStart int64
	next     int64
}

func newPartition(q *queue, r store.PartitionRow) *partition {
	return &partition{
		id: r.ID, number: int32(r.Number), name: r.Name, queue: q,
		mark: mark{loaded: true, epoch: r.Incarnation, logStart: r.LogStart, next: r.NextOffset},
	}
}

// seen takes over marks that a committed statement returned.
func (p *partition) seen(epoch int32, logStart, next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.mark.known || epoch > p.mark.epoch:
		p.mark = mark{known: true, epoch: epoch, logStart: logStart, next: next}
	case epoch == p.mark.epoch:
		p.mark.logStart = max(p.mark.logStart, logStart)
		p.mark.next = max(p.mark.next, next)
	}
}

func (p *partition) marks() mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mark
}

func (p *partition) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark = mark{}
}

func (p *partition) ref() PartitionRef {
	return PartitionRef{Queue: QueueRef{Name: p.queue.name(), TopicID: p.queue.topic}, Number: p.number}
}
