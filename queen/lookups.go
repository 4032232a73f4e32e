package queen

import (
	"context"
	"fmt"
)

// lookups resolves the partitions of one request. Whatever the catalog has not is asked
// of the database once, all of it together: a request may name very many queues and
// partitions that do not exist, and each would be a statement, again and again.
type lookups struct {
	c   *catalog
	n   int                // references of the request
	ref func(int) QueueRef // to the queue of each

	asked    bool
	absent   map[QueueRef]error // what was asked for in vain
	reloaded map[*queue]error   // those that lack a partition
}

// lookupsStep is how many queues one statement looks up.
const lookupsStep = 1000

func (c *catalog) lookups(n int, ref func(int) QueueRef) *lookups {
	return &lookups{c: c, n: n, ref: ref}
}

// partition is the catalog's.
func (l *lookups) partition(ctx context.Context, ref PartitionRef) (*partition, error) {
	q := l.c.cached(ref.Queue)
	if q == nil {
		l.ask(ctx)
		if err := l.absent[ref.Queue]; err != nil {
			return nil, err
		}
		var err error
		if q, err = l.c.queue(ctx, ref.Queue); err != nil {
			return nil, err
		}
	}
	if p := q.partition(ref.Number); p != nil {
		return p, nil
	}
	none := fmt.Errorf("%w: %s has no partition %d", ErrUnknownPartition, q.name(), ref.Number)
	if ref.Number < 0 {
		return nil, none
	}
	// Another broker may just have made it.
	err, done := l.reloaded[q]
	if !done {
		if l.reloaded == nil {
			l.reloaded = map[*queue]error{}
		}
		err = l.c.reload(ctx, q)
		l.reloaded[q] = err
	}
	if err != nil {
		return nil, err
	}
	if p := q.partition(ref.Number); p != nil {
		return p, nil
	}
	return nil, none
}

// ask looks up all queues of the request that are not cached, once.
func (l *lookups) ask(ctx context.Context) {
	if l.asked {
		return
	}
	l.asked, l.absent = true, map[QueueRef]error{}
	var step []QueueRef
	var failed error // whatever comes after it is not asked for any more
	look := func() {
		var found []*queue
		if failed == nil {
			found, failed = l.c.queues(ctx, step)
		}
		for i, ref := range step {
			switch {
			case failed != nil:
				l.absent[ref] = failed
			case found[i] == nil:
				l.absent[ref] = unknownQueue(ref)
			default:
				delete(l.absent, ref)
			}
		}
		step = step[:0]
	}
	for i := range l.n {
		ref := l.ref(i)
		if _, done := l.absent[ref]; done || l.c.cached(ref) != nil {
			continue
		}
		l.absent[ref] = nil // asked for
		if step = append(step, ref); len(step) == lookupsStep {
			look()
		}
	}
	if len(step) > 0 {
		look()
	}
}
