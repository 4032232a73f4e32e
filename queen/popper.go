package queen

import (
	"cmp"
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
	leaseMax         = 12 * time.Hour
	popBatchMax      = 10_000
	popBytesMax      = 32 << 20
	popPartitionsMax = 256
	autoAckLease     = 30 * time.Second // from the claim to the completion of a pop with AutoAck
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

// key is the selection a pop is served from.
func (r *PopRequest) key() (k popKey, err error) {
	if k.group, err = groupName(r.Group); err != nil {
		return k, err
	}
	k.queue, k.partition, k.namespace, k.task = r.Queue, r.Partition, r.Namespace, r.Task
	switch {
	case r.Queue == "" && r.Namespace == "" && r.Task == "":
		return k, fmt.Errorf("%w: a pop names a queue, a namespace or a task", ErrInvalidRequest)
	case r.Queue == "" && r.Partition != "":
		return k, fmt.Errorf("%w: a partition is named without its queue", ErrInvalidRequest)
	}
	for _, n := range [...]struct{ what, name string }{
		{"queue", k.queue}, {"partition", k.partition}, {"namespace", k.namespace}, {"task", k.task},
	} {
		if n.name != "" {
			if err := ValidateName(n.what, n.name); err != nil {
				return k, err
			}
		}
	}
	return k, nil
}

// start is where the group begins in a queue it asks for the first time.
func (r *PopRequest) start() store.Subscription {
	return store.Subscription{From: r.From, New: r.FromEnd}
}

// Pop leases the next messages of some partitions to the caller, one batch of each
// under one lease. It waits as the request says, without a database connection; a
// queue that does not exist has nothing yet. No batches: nothing was there in
// time. A caller whose context ends gets no lease.
func (e *Engine) Pop(ctx context.Context, r PopRequest) ([]Popped, error) {
	key, err := r.key()
	if err != nil {
		return nil, err
	}
	r.Lease = min(max(r.Lease, 0), leaseMax)
	r.Batch = min(max(r.Batch, 1), popBatchMax)
	r.Partitions = min(max(r.Partitions, 1), popPartitionsMax)
	if r.MaxBytes <= 0 || r.MaxBytes > popBytesMax {
		r.MaxBytes = popBytesMax
	}
	came := time.Now()
	deadline := came.Add(r.Wait)
	s, err := e.hotlist.enter(key, r.start())
	if err != nil {
		return nil, err
	}
	defer e.hotlist.leave(s)
	w := &popWaiter{wake: make(chan struct{}, 1)}
	for looked := false; ; {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("pop: %w", context.Cause(ctx))
		}
		if parts := e.hotlist.take(s, r.Partitions); len(parts) > 0 {
			got, err := e.claim(ctx, &r, s, parts)
			if err != nil || len(got) > 0 {
				return got, err
			}
			continue
		}
		left := time.Until(deadline)
		if !looked && (left <= 0 || !e.hotlist.fresh(s, e.lookEvery())) {
			looked = true
			if err := e.lookShared(ctx, s, came); err != nil {
				return nil, err
			}
			continue
		}
		if left <= 0 {
			return nil, nil
		}
		if !e.hotlist.park(s, w) {
			continue // something came
		}
		more, err := e.await(ctx, w.wake, left)
		e.hotlist.unpark(s, w, err == nil && more)
		if err != nil || !more {
			return nil, err
		}
	}
}

// claim makes one attempt on candidates. What has something and is not given stays
// on the hotlist.
func (e *Engine) claim(ctx context.Context, r *PopRequest, s *popSet, parts []*partition) ([]Popped, error) {
	slices.SortFunc(parts, func(a, b *partition) int { return cmp.Compare(a.id, b.id) })
	req := store.ClaimRequest{
		Group: s.key.group, Most: r.Partitions, Batch: r.Batch, MaxBytes: r.MaxBytes,
		Lease: uuid.Must(uuid.NewV7()), LeaseFor: r.Lease,
	}
	for _, p := range parts {
		req.Partitions = append(req.Partitions, p.id)
	}
	if r.AutoAck {
		req.LeaseFor = autoAckLease
	}
	held := r.Room
	if held == nil {
		held = &AnswerRoom{}
		defer held.Release()
	}
	n, err := held.grant(ctx, e.answers, answerRoomTimes*r.MaxBytes)
	if err != nil {
		e.hotlist.add(s, parts...)
		return nil, err
	}
	defer func() { held.settle(n, 0) }()
	req.MaxBytes = min(r.MaxBytes, n/answerRoomTimes)
	var given []store.Claim
	var refused []store.Refused
	err = e.untilKnown(ctx, func(ctx context.Context) (err error) {
		given, refused, err = e.db.Claim(ctx, req)
		return err
	})
	if errors.Is(err, store.ErrCorrupted) {
		held.settle(n, 0)
		n = 0
		return e.claimApart(ctx, r, s, parts, storeError("claim", err))
	}
	if err != nil {
		e.hotlist.add(s, parts...)
		if errors.Is(err, store.ErrOutcomeUnknown) {
			e.orphans.add(req.Lease)
		}
		return nil, storeError("claim", err)
	}
	unknown := e.proposed(s, parts, given, refused)
	if len(unknown) > 0 {
		// The group was deleted since it subscribed: it begins anew, as this request says.
		err = storeError("subscribe", e.db.Subscribe(ctx, unknown, s.key.group, r.start()))
	}
	if len(given) == 0 {
		return nil, err
	}
	var got []Popped
	var beyond []int64
	room := newUnpackRoom(n)
	if err == nil {
		got, beyond, err = e.unpack(ctx, r, s.key.group, req.Lease, parts, given, room)
	}
	if cut := (*cutError)(nil); errors.As(err, &cut) {
		// What is unpacked is too much for one answer: as many messages as are not.
		e.Release(ctx, req.Lease)
		held.settle(n, 0)
		n = 0
		less := *r
		less.Partitions = len(cut.parts)
		if cut.fits > 0 {
			less.Batch = cut.fits
		}
		return e.claim(ctx, &less, s, cut.parts)
	}
	held.settle(n, 2*room.used)
	n = 0
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("pop: %w", context.Cause(ctx)) // nobody is there any more
	}
	if err != nil {
		e.Release(ctx, req.Lease)
		return nil, err
	}
	if r.AutoAck {
		return e.deliver(ctx, s.key.group, req.Lease, got, given, beyond)
	}
	for i := range got {
		got[i].LeaseID = req.Lease
		e.leases.keep(leaseKey{req.Lease, got[i].PartitionID}, got[i].Messages)
	}
	return got, nil
}

// claimApart claims candidates one by one, of which PostgreSQL cannot read one, until
// something is given.
func (e *Engine) claimApart(ctx context.Context, r *PopRequest, s *popSet, parts []*partition, broken error) ([]Popped, error) {
	if len(parts) == 1 {
		e.damaged(parts[0], broken)
		e.hotlist.add(s, parts...)
		return nil, broken
	}
	one := *r
	one.Partitions = 1
	for i := range parts {
		got, err := e.claim(ctx, &one, s, parts[i:i+1])
		if len(got) > 0 || err != nil && !errors.Is(err, ErrCorruptBatch) {
			e.hotlist.add(s, parts[i+1:]...)
			return got, err
		}
	}
	return nil, broken
}

// proposed tells the hotlist what became of a claim's candidates, and lists the queues,
// ascending, in which the group has no position and no subscription.
func (e *Engine) proposed(s *popSet, parts []*partition, given []store.Claim, refused []store.Refused) (unknown []int64) {
	candidates := make(map[int64]*partition, len(parts))
	for _, p := range parts {
		candidates[p.id] = p
	}
	for _, c := range given {
		e.hotlist.leased(s, candidates[c.Partition], c.Left)
		delete(candidates, c.Partition)
	}
	for _, f := range refused {
		p := candidates[f.Partition]
		delete(candidates, f.Partition)
		switch f.Why {
		case store.ClaimLater:
			e.hotlist.later(s, p, f.In)
		case store.ClaimBusy:
			e.hotlist.later(s, p, popBusyFor)
		case store.ClaimGone:
			e.catalog.drop(p.queue)
		case store.ClaimUnknown:
			unknown = append(unknown, p.queue.id)
			e.hotlist.add(s, p)
		case store.ClaimNothing:
		}
	}
	for _, p := range parts {
		if candidates[p.id] != nil {
			e.hotlist.add(s, p) // not looked at
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// unpack decodes what was given, and completes the offsets that hold no message:
// nobody else can. With AutoAck it leaves that to deliver, and says where each
// claim's holes go on beyond its end.
func (e *Engine) unpack(ctx context.Context, r *PopRequest, group string, lease uuid.UUID, parts []*partition, given []store.Claim,
	room *unpackRoom,
) (got []Popped, beyond []int64, err error) {
	var empty []store.CursorAck
	beyond = make([]int64, len(given))
	var whole []*partition
	var broken error
	for i, c := range given {
		p := parts[slices.IndexFunc(parts, func(p *partition) bool { return p.id == c.Partition })]
		msgs, holes, err := unpackClaim(p, c, room)
		if cut := (*cutError)(nil); errors.As(err, &cut) && len(whole) > 0 {
			return nil, nil, &cutError{parts: whole} // they fit as they are
		}
		if errors.Is(err, ErrCorruptBatch) {
			e.damaged(p, err)
			broken, beyond[i] = err, c.Next-1
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		whole = append(whole, p)
		beyond[i] = c.End
		if n := len(holes); n > 0 {
			beyond[i] = max(c.End, holes[n-1])
			empty = append(empty, completed(group, p.id, lease, holes))
		}
		if len(msgs) > 0 {
			got = append(got, Popped{Queue: p.queue.name(), Partition: p.name, PartitionID: p.id, Group: r.Group, Messages: msgs})
		}
	}
	if broken != nil && len(got) == 0 {
		return nil, nil, broken
	} // else its partition stays leased: the others are not to wait for it every time
	if len(empty) > 0 && !r.AutoAck {
		if _, err := e.ackUntilKnown(ctx, empty); err != nil {
			return nil, nil, storeError("claim", err)
		}
	}
	return got, beyond, nil
}

// completed acknowledges offsets.
func completed(group string, partition int64, lease uuid.UUID, offsets []int64) store.CursorAck {
	return store.CursorAck{Group: group, Partition: partition, Lease: lease, Offsets: offsets, Outcomes: make([]store.Outcome, len(offsets))}
}

// deliver completes all that a pop with AutoAck was given, up to beyond of each
// claim, after it was seen that the caller is still there. What it no longer holds
// is not given.
func (e *Engine) deliver(ctx context.Context, group string, lease uuid.UUID, got []Popped, given []store.Claim, beyond []int64) ([]Popped, error) {
	acks := make([]store.CursorAck, 0, len(given))
	for i, c := range given {
		if beyond[i] < c.Next {
			continue // it cannot be read
		}
		offsets := make([]int64, 0, beyond[i]-c.Next+1)
		for o := c.Next; o <= beyond[i]; o++ {
			offsets = append(offsets, o)
		}
		acks = append(acks, completed(group, c.Partition, lease, offsets))
	}
	verdicts, err := e.ackUntilKnown(ctx, acks)
	if err != nil {
		e.Release(ctx, lease) // of what was completed after all there is nothing to give back
		return nil, storeError("complete on delivery", err)
	}
	for i, v := range verdicts {
		if v.Err != nil {
			got = slices.DeleteFunc(got, func(p Popped) bool { return p.PartitionID == acks[i].Partition })
		}
	}
	return got, nil
}

// unpackClaim decodes the messages given and not completed before, and lists
// the offsets given that hold none. Where none of them holds one, the list goes on
// to the next message: a large hole is not crossed a batch at a time.
func unpackClaim(p *partition, c store.Claim, room *unpackRoom) (msgs []StoredMessage, holes []int64, err error) {
	segs := make([]*segment, 0, len(c.Segments))
	var broken error
	for _, row := range c.Segments {
		seg, err := loadRow(row)
		if err != nil {
			broken = err
			break
		}
		segs = append(segs, seg)
	}
	all, cut, err := p.decode(segs, c.Next, c.End, room)
	if err == nil && len(all) == 0 {
		err = broken
	}
	if err != nil {
		return nil, nil, fmt.Errorf("pop: %w", err)
	}
	if cut || broken != nil { // what lies before it first
		return nil, nil, &cutError{[]*partition{p}, max(1, len(all))}
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

// cutError: what was claimed is more than one answer unpacks.
type cutError struct {
	parts []*partition // of which it is not more,
	fits  int          // with so many messages; 0: with all that was claimed
}

func (e *cutError) Error() string { return "too much to unpack for one answer" }

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
