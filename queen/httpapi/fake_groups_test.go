package httpapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"queenmq/queen"
)

// The consumer groups of the fake. It has no subscriptions.

// lags lists what groups owe, by group, queue and number; nil and "" are all.
func (f *fake) lags(group *string, queue string) []queen.PartitionLag {
	var out []queen.PartitionLag
	for _, q := range f.queues {
		groups := map[string]bool{}
		for _, p := range q.parts {
			for g := range p.cursors {
				groups[g] = true
			}
			for g := range p.leases {
				groups[g] = true
			}
		}
		if group != nil && queue != "" {
			groups[*group] = true
		}
		for g := range groups {
			if queue != "" && q.Name != queue || group != nil && g != *group {
				continue
			}
			for _, p := range q.parts {
				out = append(out, f.lag(g, q, p))
			}
		}
	}
	slices.SortFunc(out, func(a, b queen.PartitionLag) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Number, b.Number))
	})
	return out
}

func (f *fake) lag(g string, q *fakeQueue, p *fakePartition) queen.PartitionLag {
	at, known := p.cursors[g]
	lease, leased := p.leases[g]
	l := queen.PartitionLag{
		Group: g, Queue: q.Name, Partition: p.Name, PartitionID: p.ID, Number: p.Number, LogStart: p.LogStart, LogEnd: p.LogEnd,
		Position: max(at, p.LogStart), Known: known || leased, LeaseEnd: -1,
	}
	if l.Known {
		l.CommittedAt = f.now
	}
	if l.Pending = l.LogEnd - l.Position; l.Pending > 0 {
		l.OldestAt = p.msgs[l.Position].CreatedAt
		l.OldestAge = f.now.Sub(l.OldestAt)
	}
	if lease.ends.After(f.now) {
		l.LeaseEnd, l.LeaseUntil = lease.upTo-1, lease.ends
	}
	return l
}

func (f *fake) Depth(_ context.Context, queue string, group *string, from, limit int) ([]queen.Depth, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	if q == nil {
		return nil, 0, cmp2(f.down, queen.ErrUnknownQueue)
	}
	out := make([]queen.Depth, len(q.parts))
	lags := f.lags(group, queue)
	for i, p := range q.parts {
		out[i] = queen.Depth{Partition: p.Name, PartitionID: p.ID, Number: p.Number}
		if len(lags) == 0 {
			out[i].Pending = p.LogEnd - p.LogStart
		}
		for _, l := range lags {
			if l.PartitionID == p.ID {
				out[i].Pending = max(out[i].Pending, l.Pending)
			}
		}
	}
	out = out[min(from, len(out)):]
	if limit == 0 || limit >= len(out) {
		return out, 0, f.down
	}
	return out[:limit], from + limit, f.down
}

func (f *fake) totals(ctx context.Context, queue string) ([]queen.QueueTotals, error) {
	all, err := f.AllQueues(ctx)
	if err != nil {
		return nil, err
	}
	var out []queen.QueueTotals
	for _, q := range all {
		if queue != "" && q.Name != queue {
			continue
		}
		t := queen.QueueTotals{Queue: q.Name, Partitions: q.Partitions}
		depth, _, err := f.Depth(ctx, q.Name, nil, 0, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range depth {
			t.Pending += d.Pending
		}
		f.mu.Lock()
		for _, p := range f.queues[q.Name].parts {
			t.Messages += p.LogEnd - p.LogStart
		}
		groups := map[string]bool{}
		for _, l := range f.lags(nil, q.Name) {
			groups[l.Group] = true
		}
		f.mu.Unlock()
		t.Groups = len(groups)
		out = append(out, t)
	}
	if queue != "" && len(out) == 0 {
		return nil, queen.ErrUnknownQueue
	}
	return out, nil
}

func (f *fake) groupLags(queue string) []queen.GroupLag {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []queen.GroupLag
	for _, l := range f.lags(nil, queue) {
		if n := len(out); n == 0 || out[n-1].Group != l.Group || out[n-1].Queue != l.Queue {
			out = append(out, queen.GroupLag{Group: l.Group, Queue: l.Queue})
		}
		g := &out[len(out)-1]
		g.Partitions++
		g.Pending += l.Pending
		if l.Known {
			g.Positions++
			g.CommittedAt = l.CommittedAt
		}
		if l.Pending > 0 {
			g.Behind++
			if g.OldestAge <= l.OldestAge {
				g.OldestAt, g.OldestAge = l.OldestAt, l.OldestAge
			}
		}
		if l.LeaseEnd >= 0 {
			g.Leases++
		}
	}
	return out
}

func (f *fake) Count(ctx context.Context) (*queen.Count, error) { return f.CountQueue(ctx, "") }

func (f *fake) CountQueue(ctx context.Context, queue string) (*queen.Count, error) {
	totals, err := f.totals(ctx, queue)
	if err != nil {
		return nil, err
	}
	return &queen.Count{At: f.countedAt, Queues: totals, Groups: f.groupLags(queue)}, f.down
}

func (f *fake) GroupPositions(_ context.Context, q queen.PositionsQuery) (*queen.PositionsPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.Queue != "" && f.queues[q.Queue] == nil {
		return nil, cmp2(f.down, queen.ErrUnknownQueue)
	}
	all := slices.DeleteFunc(f.lags(&q.Group, q.Queue), func(l queen.PartitionLag) bool {
		return q.Partition != "" && l.Partition != q.Partition ||
			cmp.Or(cmp.Compare(l.Queue, cmp.Or(q.FromQueue, l.Queue)), cmp.Compare(l.Number, q.From)) < 0
	})
	page := &queen.PositionsPage{Partitions: all}
	if q.Limit > 0 && q.Limit < len(all) {
		next := all[q.Limit]
		page.Partitions, page.More, page.NextQueue, page.Next = all[:q.Limit], true, next.Queue, next.Number
	}
	if len(page.Partitions) == 0 && q.Partition != "" {
		return nil, queen.ErrUnknownPartition
	}
	return page, f.down
}

func (f *fake) Lagging(_ context.Context, age time.Duration) ([]queen.PartitionLag, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.DeleteFunc(f.lags(nil, ""), func(l queen.PartitionLag) bool { return l.Pending == 0 || l.OldestAge < age })
	slices.SortStableFunc(out, func(a, b queen.PartitionLag) int { return cmp.Compare(b.OldestAge, a.OldestAge) })
	return out, f.countedAt, f.down
}

func (f *fake) Seek(_ context.Context, group, queue, partition string, to queen.SeekTo) ([]queen.Sought, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	if q == nil {
		return nil, cmp2(f.down, queen.ErrUnknownQueue)
	}
	f.lastSeek = to
	var out []queen.Sought
	for _, p := range q.parts {
		if partition != "" && p.Name != partition {
			continue
		}
		at := p.LogEnd
		switch {
		case to.Start:
			at = p.LogStart
		case to.Offset != nil:
			at = *to.Offset
		case !to.Time.IsZero() && !to.Time.After(f.now):
			at = p.LogStart
		}
		if at < p.LogStart || at > p.LogEnd {
			return nil, queen.ErrOffsetOutOfRange
		}
		p.cursors[group] = at
		delete(p.leases, group)
		out = append(out, queen.Sought{Partition: p.Name, PartitionID: p.ID, Number: p.Number, Offset: at})
	}
	if len(out) == 0 {
		return nil, queen.ErrUnknownPartition
	}
	return out, f.down
}

func (f *fake) DeleteGroupFrom(_ context.Context, group, queue string, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if queue != "" && f.queues[queue] == nil {
		return cmp2(f.down, queen.ErrUnknownQueue)
	}
	found := false
	for _, q := range f.queues {
		for _, p := range q.parts {
			if queue != "" && q.Name != queue {
				continue
			}
			if p.leases[group].ends.After(f.now) {
				return queen.ErrGroupNotEmpty
			}
			if _, has := p.cursors[group]; has {
				found = true
				delete(p.cursors, group)
			}
		}
	}
	if !found {
		return cmp2(f.down, queen.ErrUnknownGroup)
	}
	return f.down
}

func (f *fake) Offsets(_ context.Context, qs []queen.OffsetQuery) ([]queen.OffsetAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]queen.OffsetAnswer, len(qs))
	for i, q := range qs {
		out[i] = queen.OffsetAnswer{Offset: -1, Timestamp: -1, Epoch: -1}
		if q.Timestamp <= f.now.UnixMilli() {
			out[i].Offset = f.queues[q.Partition.Queue.Name].parts[q.Partition.Number].LogStart
		}
	}
	return out, f.down
}

func (f *fake) SetSubscription(_ context.Context, group string, _ time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lags(&group, "")) == 0 {
		return cmp2(f.down, queen.ErrUnknownGroup)
	}
	return f.down
}

func (f *fake) Changed(_ context.Context, qs []queen.ChangesQuery) (time.Time, []queen.Changes, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]queen.Changes, len(qs))
	for i, c := range qs {
		q := f.queues[c.Queue]
		if q == nil {
			out[i].Err = queen.ErrUnknownQueue
			continue
		}
		for _, p := range q.parts[min(c.From, len(q.parts)):] {
			if c.Since.After(f.now) {
				continue
			}
			if len(out[i].Partitions) == c.Limit {
				out[i].More = p.Number
				break
			}
			x := queen.ChangedPartition{ID: p.ID, Number: p.Number, Name: p.Name, LogStart: p.LogStart, LastOffset: p.LogEnd - 1}
			if p.LogEnd > 0 {
				x.LastWriteAt = f.now
			}
			out[i].Partitions = append(out[i].Partitions, x)
		}
	}
	return f.now, out, f.down
}
