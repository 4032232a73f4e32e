package queen

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Extend lets a live lease run on, at least so long from now; 0 is as long as it
// was asked for at first. A lease that is over is no error: it is live in no partition.
func (e *Engine) Extend(ctx context.Context, lease uuid.UUID, by time.Duration) (x Extended, err error) {
	if by < 0 || by > leaseMax {
		return x, fmt.Errorf("%w: a lease is extended by up to %v", ErrInvalidRequest, leaseMax)
	}
	err = e.untilKnown(ctx, func(ctx context.Context) (err error) {
		x.Partitions, x.Until, err = e.db.ExtendLease(ctx, lease, by)
		return err
	})
	return x, storeError("extend lease", err)
}

// Release gives back what a lease covers as if it had never been given: the
// caller has gone, or its answer could not be sent. Where the database cannot be reached
// it is tried again until it can, or the lease has ended.
func (e *Engine) Release(ctx context.Context, lease uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.CallTimeout)
	defer cancel()
	if err := e.release(ctx, lease); err != nil {
		e.orphans.add(lease)
	}
}

func (e *Engine) release(ctx context.Context, lease uuid.UUID) error {
	group, partitions, err := e.db.ReleaseLease(ctx, lease)
	if err != nil {
		return err
	}
	for _, id := range partitions {
		e.hotlist.freed(group, id)
	}
	return nil
}

// freed tells that a group's lease was given back in a partition.
func (h *hotlist) freed(group string, id int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.held[heldKey{group, id}] {
		h.heat(s, s.kept[id].p)
	}
}

// orphansMax bounds the leases that wait to be given back; beyond, they run out.
const orphansMax = 10_000

// orphans are leases nobody knows of: of claims whose outcome stayed unknown, and
// of callers that had gone while the database could not be reached.
type orphans struct {
	mu  sync.Mutex
	ids []uuid.UUID
}

func (o *orphans) add(lease uuid.UUID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.ids) < orphansMax {
		o.ids = append(o.ids, lease)
	}
}

func (o *orphans) any() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ids) > 0
}

// release gives back what it can.
func (o *orphans) release(ctx context.Context, e *Engine) {
	o.mu.Lock()
	ids := slices.Clone(o.ids)
	o.mu.Unlock()
	for _, id := range ids {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
		err := e.release(ctx, id)
		cancel()
		if err != nil {
			return // it cannot be reached yet
		}
		o.mu.Lock()
		o.ids = slices.DeleteFunc(o.ids, func(other uuid.UUID) bool { return other == id })
		o.mu.Unlock()
	}
}

// The bounds of the memory of leases; the oldest are forgotten first.
const (
	leasesMax       = 10_000
	leaseBytesMax   = 64 << 20
	leaseIDOverhead = 64 // of an id, beside its bytes
)

// leases remembers what was given out under a lease, so that acknowledging it
// needs no look-up.
type leases struct {
	mu    sync.Mutex
	ids   map[leaseKey]leased
	order []leaseKey
	bytes int
}

// leaseKey is the part of a lease in one partition.
type leaseKey struct {
	lease     uuid.UUID
	partition int64
}

// leased is what was given out under one lease in one partition.
type leased struct {
	offsets map[string]int64 // by id
	bytes   int
}

func newLeases() *leases {
	return &leases{ids: map[leaseKey]leased{}}
}

func (l *leases) keep(lease leaseKey, msgs []StoredMessage) {
	given := leased{offsets: make(map[string]int64, len(msgs))}
	for _, m := range slices.Backward(msgs) { // an id given twice means the first
		given.offsets[string(m.TransactionID)] = m.Offset
		given.bytes += len(m.TransactionID) + leaseIDOverhead
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.ids[lease]; ok {
		return // two acks read it back at once
	}
	l.ids[lease] = given
	l.order = append(l.order, lease)
	l.bytes += given.bytes
	for len(l.order) > leasesMax || l.bytes > leaseBytesMax {
		l.bytes -= l.ids[l.order[0]].bytes
		delete(l.ids, l.order[0])
		l.order = l.order[1:]
	}
}

// offset finds an id under a lease. known says whether the lease is remembered.
func (l *leases) offset(lease leaseKey, id []byte) (offset int64, found, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	given, known := l.ids[lease]
	offset, found = given.offsets[string(id)]
	return offset, found, known
}
