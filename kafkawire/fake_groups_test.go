package kafkawire

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"queenmq/queen"
)

// coordination is who coordinates all groups, and in which epoch.
type coordination struct {
	broker  int32
	epoch   int64
	inDoubt bool
}

func (f *fake) Coordinator(string) queen.Coordination {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := queen.Coordination{Fence: queen.Fence{Slot: 9, Epoch: f.groups.epoch}, InDoubt: f.groups.inDoubt}
	if c.InDoubt {
		return c
	}
	c.Mine = f.groups.broker == f.cluster.Self
	for _, b := range f.cluster.Brokers {
		if b.ID == f.groups.broker {
			c.Broker, c.Known = b, true
		}
	}
	return c
}

// setCoordinator has another broker take all groups over; 0 is nobody.
func (f *fake) setCoordinator(broker int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups.broker = broker
	f.groups.epoch++
}

// doubt says whether the database has not heard of this broker for too long.
func (f *fake) doubt(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups.inDoubt = yes
}

// fenced says whether the fence is not the coordinator's any more; mu is held.
func (f *fake) fenced(under queen.Fence) bool {
	return under != queen.Fence{Slot: 9, Epoch: f.groups.epoch}
}

func (f *fake) CommitOffsets(ctx context.Context, group string, under queen.Fence, cs []queen.Cursor) ([]queen.Cursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	if f.fenced(under) {
		return nil, queen.ErrNotCoordinator
	}
	if f.cursors[group] == nil {
		f.cursors[group] = make(map[string]queen.Cursor)
	}
	as := slices.Clone(cs)
	for i := range as {
		c := &as[i]
		q, err := f.find(c.Partition.Queue)
		switch {
		case err != nil:
			c.Err = err
		case c.Partition.Number < 0 || int(c.Partition.Number) >= len(q.logs):
			c.Err = queen.ErrUnknownPartition
		case len(c.Metadata) > 4096:
			c.Err = queen.ErrMetadataTooLarge
		default:
			c.Partition.Queue = queen.QueueRef{Name: q.Name, TopicID: q.TopicID}
			c.CommittedAt = time.Now()
			f.cursors[group][fmt.Sprint(q.ID, "/", c.Partition.Number)] = *c
		}
	}
	return as, nil
}

func (f *fake) HasPositions(_ context.Context, group string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.cursors[group]) > 0, f.fail
}

func (f *fake) FetchOffsets(ctx context.Context, group string, refs []queen.PartitionRef) ([]queen.Cursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	var as []queen.Cursor
	if refs == nil {
		for _, c := range f.cursors[group] {
			as = append(as, c)
		}
		slices.SortFunc(as, func(a, b queen.Cursor) int {
			if d := strings.Compare(a.Partition.Queue.Name, b.Partition.Queue.Name); d != 0 {
				return d
			}
			return int(a.Partition.Number - b.Partition.Number)
		})
		return as, nil
	}
	for _, r := range refs {
		c := queen.Cursor{Partition: r, Offset: -1, Epoch: -1}
		q, err := f.find(r.Queue)
		switch {
		case err != nil:
			c.Err = err
		case r.Number < 0 || int(r.Number) >= len(q.logs):
			c.Err = queen.ErrUnknownPartition
		default:
			if stored, ok := f.cursors[group][fmt.Sprint(q.ID, "/", r.Number)]; ok {
				c = stored
			}
			c.Partition.Queue = queen.QueueRef{Name: q.Name, TopicID: q.TopicID}
		}
		as = append(as, c)
	}
	return as, nil
}

func (f *fake) Groups(ctx context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name, cs := range f.cursors {
		if len(cs) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, f.fail
}

func (f *fake) DeleteGroup(ctx context.Context, group string, under queen.Fence) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	if f.fenced(under) {
		return queen.ErrNotCoordinator
	}
	if len(f.cursors[group]) == 0 {
		return queen.ErrUnknownGroup
	}
	delete(f.cursors, group)
	return nil
}

func (f *fake) OldOffsets(ctx context.Context, age time.Duration, each func(string) error) error {
	names, err := f.Groups(ctx)
	for _, name := range names {
		err = cmp.Or(err, each(name))
	}
	return err
}

func (f *fake) GroupsSeen(ctx context.Context, groups []string, forget time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range groups {
		f.seen[name] = time.Now()
	}
	return f.fail
}

func (f *fake) ExpireOffsets(ctx context.Context, group string, under queen.Fence, x queen.Expiry) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fenced(under) {
		return 0, queen.ErrNotCoordinator
	}
	if seen, ok := f.seen[group]; ok && !x.Live && time.Since(seen) < x.Seen {
		return 0, f.fail
	}
	n := 0
	for key, c := range f.cursors[group] {
		if time.Since(c.CommittedAt) >= x.Age && !(x.Live && slices.Contains(x.Topics, c.Partition.Queue.Name)) {
			delete(f.cursors[group], key)
			n++
		}
	}
	return n, f.fail
}

func (f *fake) DeleteOffsets(ctx context.Context, group string, under queen.Fence, refs []queen.PartitionRef) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fenced(under) {
		return nil, queen.ErrNotCoordinator
	}
	out := make([]error, len(refs))
	for i, r := range refs {
		if _, out[i] = f.log(r); out[i] == nil {
			q, _ := f.find(r.Queue)
			delete(f.cursors[group], fmt.Sprint(q.ID, "/", r.Number))
		}
	}
	return out, f.fail
}
