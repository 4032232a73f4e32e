package queen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"queenmq/dedup"
	"queenmq/store"
)

// ackKey is what acks that go in one call have in common.
type ackKey struct {
	group     string
	partition int64
	lease     uuid.UUID
}

// Ack answers one Acked per ack, in order. Acks of one lease go in one call.
// A failed message is given back like a retried one.
func (e *Engine) Ack(ctx context.Context, acks []Ack) []Acked {
	out := make([]Acked, len(acks))
	byKey := map[ackKey][]int{}
	var order []ackKey
	for i, a := range acks {
		group, err := groupName(a.Group)
		switch {
		case err != nil:
			out[i].Err = err
			continue
		case a.Status != AckCompleted && a.Status != AckFailed && a.Status != AckRetry:
			out[i].Err = fmt.Errorf("%w: status %q; use completed, failed or retry", ErrInvalidRequest, a.Status)
			continue
		}
		k := ackKey{group, a.PartitionID, a.LeaseID}
		if byKey[k] == nil {
			order = append(order, k)
		}
		byKey[k] = append(byKey[k], i)
	}
	for _, k := range order {
		e.ackOne(ctx, k, acks, byKey[k], out)
	}
	return out
}

// ackOne makes the call for the acks at index, which share k.
func (e *Engine) ackOne(ctx context.Context, k ackKey, acks []Ack, index []int, out []Acked) {
	fail := func(err error) {
		for _, i := range index {
			if out[i].Err == nil {
				out[i].Err = err
			}
		}
	}
	offsets, err := e.resolve(ctx, k, acks, index)
	if err != nil {
		fail(err)
		return
	}
	var done []int64
	retry := false
	known := 0
	for n, i := range index {
		if offsets[n] < 0 {
			out[i].Err = fmt.Errorf("%w: no message %q in partition %d is known; it may have aged out", ErrUnresolvable, acks[i].TransactionID, k.partition)
			continue
		}
		known++
		if acks[i].Status == AckCompleted {
			done = append(done, offsets[n])
		} else {
			retry = true
		}
	}
	if known == 0 {
		return
	}
	_, _, err = e.db.Ack(ctx, k.group, k.partition, k.lease, done, retry)
	switch {
	case err == nil:
	case errors.Is(err, store.ErrLeaseLost):
		fail(fmt.Errorf("%w: %s has ended, its messages may be with another consumer", ErrLeaseLost, k.lease))
	case errors.Is(err, store.ErrNotFound):
		fail(fmt.Errorf("%w: this group has popped nothing from partition %d", ErrLeaseLost, k.partition))
	case errors.Is(err, store.ErrTooManyAcked):
		fail(fmt.Errorf("%w: %w; complete the earlier ones first", ErrOverloaded, err))
	default:
		fail(storeError("ack", err))
	}
	if retry && err == nil {
		e.waiters.wake(k.partition)
	}
}

// resolve finds the offsets of acknowledged ids: in what this broker gave out
// under the lease, else through the sidecar. −1 is an id nobody knows.
func (e *Engine) resolve(ctx context.Context, k ackKey, acks []Ack, index []int) ([]int64, error) {
	offsets := make([]int64, len(index))
	var missing []int
	for n, i := range index {
		var ok bool
		if offsets[n], ok = e.leases.offset(k.lease, acks[i].TransactionID); !ok {
			offsets[n] = -1
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 {
		return offsets, nil
	}
	var from int64
	rows, err := e.db.Cursors(ctx, k.group, []int64{k.partition})
	if err != nil {
		return nil, storeError("resolve ids", err)
	}
	if len(rows) > 0 {
		from = rows[0].Offset // nothing below it is open
	}
	hashes := make([][16]byte, len(missing))
	uids := make([]store.UID, 0, len(missing))
	uidOf := make([]int, 0, len(missing))
	for m, n := range missing {
		id := acks[index[n]].TransactionID
		hashes[m] = dedup.Of(id)
		if hi, lo, ok := ParseID(id); ok {
			uids = append(uids, store.UID{Hi: hi, Lo: lo})
			uidOf = append(uidOf, n)
		}
	}
	byHash, byUID, err := e.db.ResolveIDs(ctx, k.partition, from, hashes, uids)
	if err != nil {
		return nil, storeError("resolve ids", err)
	}
	for m, n := range missing {
		offsets[n] = byHash[m]
	}
	for m, n := range uidOf {
		if offsets[n] < 0 {
			offsets[n] = byUID[m]
		}
	}
	return offsets, nil
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
	ids   map[uuid.UUID]leased
	order []uuid.UUID
	bytes int
}

// leased is what was given out under one lease.
type leased struct {
	offsets map[string]int64 // by id
	bytes   int
}

func newLeases() *leases {
	return &leases{ids: map[uuid.UUID]leased{}}
}

func (l *leases) keep(lease uuid.UUID, msgs []StoredMessage) {
	given := leased{offsets: make(map[string]int64, len(msgs))}
	for _, m := range slices.Backward(msgs) { // an id given twice means the first
		given.offsets[string(m.TransactionID)] = m.Offset
		given.bytes += len(m.TransactionID) + leaseIDOverhead
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[lease] = given
	l.order = append(l.order, lease)
	l.bytes += given.bytes
	for len(l.order) > leasesMax || l.bytes > leaseBytesMax {
		l.bytes -= l.ids[l.order[0]].bytes
		delete(l.ids, l.order[0])
		l.order = l.order[1:]
	}
}

func (l *leases) offset(lease uuid.UUID, id []byte) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, ok := l.ids[lease].offsets[string(id)]
	return o, ok
}
