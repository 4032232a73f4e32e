package queen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
)

// ownGroup is the cursor of consumers that name no group. A control character
// keeps it out of reach of every name a client can give.
const ownGroup = "\x01"

// The defaults and bounds of Pop.
const (
	leaseDefault   = 300 * time.Second
	leaseMax       = 12 * time.Hour
	popBatchMax    = 10_000
	popBytesMax    = 32 << 20
	candidatesMax  = 10_000      // partitions offered to one claim
	popLookEvery   = time.Second // leases end and partitions are born without a wake-up
	absentQueueLag = 100 * time.Millisecond
)

func groupName(g string) (string, error) {
	if g == "" {
		return ownGroup, nil
	}
	if err := ValidateName("group", g); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalidGroup, err)
	}
	return g, nil
}

// Pop leases the next messages of one partition to the caller. It waits as the
// request says; a queue that does not exist has nothing yet.
func (e *Engine) Pop(ctx context.Context, r PopRequest) (Popped, error) {
	group, err := groupName(r.Group)
	if err == nil {
		err = ValidateName("queue", r.Queue)
	}
	if err == nil && r.Partition != "" {
		err = ValidateName("partition", r.Partition)
	}
	if err != nil {
		return Popped{}, err
	}
	if r.Lease <= 0 {
		r.Lease = leaseDefault
	}
	r.Lease = min(r.Lease, leaseMax)
	r.Batch = min(max(r.Batch, 1), popBatchMax)
	if r.MaxBytes <= 0 || r.MaxBytes > popBytesMax {
		r.MaxBytes = popBytesMax
	}
	deadline := time.Now().Add(r.Wait)
	for {
		parts, err := e.candidates(ctx, r)
		if err != nil {
			return Popped{}, err
		}
		// Register, then claim, then wait.
		states := make([]readState, len(parts))
		for i, p := range parts {
			states[i].p = p
		}
		w, err := e.watch(states)
		if err != nil {
			return Popped{}, err
		}
		got, found, err := e.claim(ctx, r, group, parts)
		left := time.Until(deadline)
		if err != nil || found || left <= 0 {
			w.close()
			return got, err
		}
		if len(parts) == 0 {
			left = min(left, absentQueueLag)
		}
		_, err = e.await(ctx, w, min(left, popLookEvery))
		w.close()
		if err != nil {
			return Popped{}, err
		}
		select {
		case <-e.stopping:
			return Popped{}, nil
		default:
		}
	}
}

// candidates are the partitions a pop may be served from, another one first each time.
func (e *Engine) candidates(ctx context.Context, r PopRequest) ([]*partition, error) {
	if r.Partition != "" {
		p, err := e.lookupNamed(ctx, r.Queue, r.Partition)
		if errors.Is(err, ErrUnknownQueue) || errors.Is(err, ErrUnknownPartition) {
			return nil, nil
		}
		return []*partition{p}, err
	}
	q, err := e.catalog.queue(ctx, QueueRef{Name: r.Queue})
	if errors.Is(err, ErrUnknownQueue) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := q.all()
	if len(all) == 0 {
		return nil, nil
	}
	first := int(q.turn.Add(1)) % len(all)
	parts := slices.Concat(all[first:], all[:first])
	return parts[:min(len(parts), candidatesMax)], nil
}

// claim makes one attempt. found reports whether there was something.
func (e *Engine) claim(ctx context.Context, r PopRequest, group string, parts []*partition) (got Popped, found bool, err error) {
	for len(parts) > 0 {
		ids := make([]int64, len(parts))
		for i, p := range parts {
			ids[i] = p.id
		}
		lease := uuid.New()
		c, err := e.db.Claim(ctx, store.ClaimRequest{
			Group: group, Partitions: ids, Batch: r.Batch, MaxBytes: r.MaxBytes,
			Lease: lease, LeaseFor: r.Lease, AutoAck: r.AutoAck, FromEnd: r.FromEnd,
		})
		if errors.Is(err, store.ErrNotFound) {
			return Popped{}, false, nil
		}
		if err != nil {
			return Popped{}, false, storeError("claim", err)
		}
		p := parts[slices.Index(ids, c.Partition)]
		msgs, holes, err := unpackClaim(p, c)
		if err != nil {
			return Popped{}, false, err
		}
		if r.AutoAck {
			lease, holes = uuid.Nil, slices.DeleteFunc(holes, func(o int64) bool { return o <= c.End })
		}
		if len(holes) > 0 {
			// Nobody can complete an offset without a message.
			if _, _, err := e.db.Ack(ctx, group, p.id, lease, holes, false); err != nil {
				return Popped{}, false, storeError("claim", err)
			}
		}
		if len(msgs) == 0 {
			continue
		}
		got = Popped{Queue: r.Queue, Partition: p.name, PartitionID: p.id, Group: r.Group, Messages: msgs}
		if !r.AutoAck {
			got.LeaseID = lease
			e.leases.keep(lease, msgs)
		}
		return got, true, nil
	}
	return Popped{}, false, nil
}

// unpackClaim decodes the messages given and not completed before, and lists
// the offsets given that hold none. Where none of them holds one, the list goes on
// to the next message: a large hole is not crossed a batch at a time.
func unpackClaim(p *partition, c store.Claim) (msgs []StoredMessage, holes []int64, err error) {
	segs := make([]*segment, len(c.Segments))
	for i, row := range c.Segments {
		if segs[i], err = loadRow(row); err != nil {
			return nil, nil, err
		}
	}
	all, err := p.decode(segs, c.Next, c.End)
	if err != nil {
		return nil, nil, fmt.Errorf("pop: %w", err)
	}
	next := c.Next
	for _, m := range all {
		for ; next < m.Offset; next++ {
			holes = append(holes, next)
		}
		next = m.Offset + 1
		if _, done := slices.BinarySearch(c.Acked, m.Offset); !done {
			msgs = append(msgs, m)
		}
	}
	end := c.End
	if len(all) == 0 {
		if end, err = nextMessage(segs, c.End); err != nil {
			return nil, nil, fmt.Errorf("pop: %w", err)
		}
		end--
	}
	for ; next <= end; next++ {
		holes = append(holes, next)
	}
	return msgs, holes, nil
}

// nextMessage is the offset of the first message after one, or the one after the
// last offset of segs.
func nextMessage(segs []*segment, after int64) (int64, error) {
	next := after + 1
	for _, s := range segs {
		found := false
		if err := s.messages(next, 1, func(m StoredMessage) bool {
			next, found = m.Offset, true
			return false
		}); err != nil || found {
			return next, err
		}
		next = max(next, s.end+1)
	}
	return next, nil
}
