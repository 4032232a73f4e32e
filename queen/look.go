package queen

import (
	"context"

	"queenmq/store"
)

// look collects what to ask about, as much as one statement may be over, and puts
// what is found on the hotlist.
type look struct {
	e          *Engine
	pairs      []store.GroupQueue
	of         []*popSet // by pair
	from       []*queue  // by pair
	partitions int       // of pairs
	over       int       // partitions asked about
	partial    bool      // more was found than a statement takes
}

// take adds a queue to what a set's group is asked about.
func (l *look) take(ctx context.Context, s *popSet, q *queue) error {
	n := q.describe().Partitions
	if l.partitions > 0 && l.partitions+n > l.e.hotlist.lookPartitionsMax {
		if err := l.ask(ctx); err != nil {
			return err
		}
	}
	l.pairs = append(l.pairs, store.GroupQueue{Queue: q.id, Group: s.key.group})
	l.of, l.from = append(l.of, s), append(l.from, q)
	l.partitions += n
	return nil
}

// ask asks about what was taken.
func (l *look) ask(ctx context.Context) error {
	if len(l.pairs) == 0 {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, l.e.cfg.CallTimeout)
	defer cancel()
	found, err := l.e.db.Ready(call, l.pairs, lookRowsMax)
	if err != nil {
		return storeError("look for messages", err)
	}
	for _, f := range found {
		q := l.from[f.Pair]
		p := q.byID(f.Partition)
		if p == nil { // another broker just made it
			if err := l.e.catalog.reload(ctx, q); err != nil {
				continue // deleted meanwhile
			}
			if p = q.byID(f.Partition); p == nil {
				continue
			}
		}
		if f.In > 0 {
			l.e.hotlist.later(l.of[f.Pair], p, f.In)
		} else {
			l.e.hotlist.add(l.of[f.Pair], p)
		}
	}
	l.partial = l.partial || len(found) == lookRowsMax
	l.over += l.partitions
	l.pairs, l.of, l.from, l.partitions = nil, nil, nil, 0
	return nil
}
