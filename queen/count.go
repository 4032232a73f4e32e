package queen

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"queenmq/store"
)

// countSteps are how many partitions a step over them and their groups is about.
type countSteps struct{ first, least, most int }

const (
	countSpansMax = 500 // queues, or parts of one, in a step
	// A step that takes longer, or less, is followed by a smaller or a larger one.
	countTakesMost  = 200 * time.Millisecond
	countTakesLeast = 50 * time.Millisecond
	// A queue of at most so many partitions is counted by itself for who asks about it.
	countAloneMax = 4000
)

// Count is what queues hold and what groups owe in them.
type Count struct {
	At     time.Time     // it is as of this moment or a later one
	Queues []QueueTotals // by name
	Groups []GroupLag    // a line for each group and queue, by their names
}

// Count counts everything there is, or, where it takes longer than half a second, gives
// the last count there is: At tells.
func (e *Engine) Count(ctx context.Context) (*Count, error) {
	t, err := e.counts.get(ctx, e, e.count)
	if err != nil {
		return nil, err
	}
	return t.result, nil
}

// CountQueue is Count of one queue.
func (e *Engine) CountQueue(ctx context.Context, name string) (*Count, error) {
	list, err := e.AllQueues(ctx)
	if err != nil {
		return nil, err
	}
	this, ok := queueNamed(list, name)
	if !ok {
		return nil, unknownQueue(QueueRef{Name: name})
	}
	if this.Partitions > countAloneMax {
		all, err := e.Count(ctx)
		if err != nil {
			return nil, err
		}
		of := &Count{At: all.At}
		for _, t := range all.Queues {
			if t.Queue == name {
				of.Queues = append(of.Queues, t)
			}
		}
		for _, g := range all.Groups {
			if g.Queue == name {
				of.Groups = append(of.Groups, g)
			}
		}
		if len(of.Queues) > 0 {
			return of, nil
		} // else it was made since
	}
	c, err := e.countOf(ctx, []Queue{this})
	if err == nil && len(c.Queues) == 0 {
		err = unknownQueue(QueueRef{Name: name})
	}
	return c, err
}

func (e *Engine) count(ctx context.Context) (*Count, error) {
	all, err := e.AllQueues(ctx)
	if err != nil {
		return nil, err
	}
	return e.countOf(ctx, all)
}

// countOf counts queues, which are in order of their names.
func (e *Engine) countOf(ctx context.Context, queues []Queue) (*Count, error) {
	c := &Count{At: time.Now()}
	counted := make([]spanCounts, len(queues))
	err := e.inSteps(ctx, queues, func(ctx context.Context, spans []store.Span, of []int) error {
		rows, err := e.db.LagSummaries(ctx, spans)
		if err != nil {
			return storeError("count messages", err)
		}
		for len(rows) > 0 {
			n := slices.IndexFunc(rows, func(r store.LagSummary) bool { return r.Span != rows[0].Span })
			if n < 0 {
				n = len(rows)
			}
			counted[of[rows[0].Span]].add(rows[:n])
			rows = rows[n:]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range counted {
		if len(counted[i].spans) > 0 || queues[i].Partitions == 0 { // else it was deleted meanwhile
			totals, groups := counted[i].sum(queues[i].Name)
			c.Queues, c.Groups = append(c.Queues, totals), append(c.Groups, groups...)
		}
	}
	slices.SortFunc(c.Groups, func(a, b GroupLag) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Queue, b.Queue))
	})
	return c, nil
}

// inSteps has all partitions of queues looked at, some of them at a time; of says of
// each span which queue it is from. How many they are goes by how long a step takes.
func (e *Engine) inSteps(ctx context.Context, queues []Queue, step func(ctx context.Context, spans []store.Span, of []int) error) error {
	most := e.steps.first
	var spans []store.Span
	var of []int
	room := most
	flush := func() error {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
		defer cancel()
		began := time.Now()
		if err := step(ctx, spans, of); err != nil {
			return err
		}
		switch took := time.Since(began); {
		case took > countTakesMost:
			most = max(most/2, e.steps.least)
		case took < countTakesLeast:
			most = min(2*most, e.steps.most)
		}
		spans, of, room = nil, nil, most
		return nil
	}
	for i := range queues {
		for from := 0; from < queues[i].Partitions; {
			to := min(from+room, queues[i].Partitions)
			room -= to - from
			s := store.Span{Queue: queues[i].ID, From: from, To: to}
			if from = to; to == queues[i].Partitions {
				s.To = math.MaxInt32 // and what was made since
			}
			spans, of = append(spans, s), append(of, i)
			if room == 0 || len(spans) == countSpansMax {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if len(spans) == 0 {
		return nil
	}
	return flush()
}

// spanCounts are the counts of a queue's spans. A group that was not found in a span has
// no position there, and owes all of it.
type spanCounts struct{ spans []spanCount }

type spanCount struct {
	nobody store.LagSummary
	groups map[string]store.LagSummary
}

// add takes the rows of one span.
func (c *spanCounts) add(rows []store.LagSummary) {
	s := spanCount{groups: make(map[string]store.LagSummary, len(rows)-1)}
	for _, r := range rows {
		if r.Group == nil {
			s.nobody = r
		} else {
			s.groups[*r.Group] = r
		}
	}
	c.spans = append(c.spans, s)
}

// sum puts the spans together.
func (c *spanCounts) sum(queue string) (QueueTotals, []GroupLag) {
	sums := map[string]*GroupLag{}
	for _, s := range c.spans {
		for g := range s.groups {
			sums[g] = &GroupLag{Group: groupShown(g), Queue: queue}
		}
	}
	totals := QueueTotals{Queue: queue, Groups: len(sums)}
	for _, s := range c.spans {
		totals.Partitions += s.nobody.Partitions
		totals.Messages += s.nobody.Pending
		if s.nobody.Furthest != nil && len(s.groups) == len(sums) {
			totals.Pending += *s.nobody.Furthest
		} else {
			totals.Pending += s.nobody.Pending
		}
		for g, sum := range sums {
			r, here := s.groups[g]
			if !here {
				r = s.nobody
			}
			sum.Partitions += r.Partitions
			sum.Positions += r.Positions
			sum.Behind += r.Behind
			sum.Pending += r.Pending
			sum.Leases += r.Leases
			if at := orZero(r.CommittedAt); at.After(sum.CommittedAt) {
				sum.CommittedAt = at
			}
			if at := orZero(r.OldestAt); r.OldestAt != nil && (sum.OldestAt.IsZero() || at.Before(sum.OldestAt)) {
				sum.OldestAt, sum.OldestAge = at, milliseconds(r.AgeMs)
			}
		}
	}
	groups := make([]GroupLag, 0, len(sums))
	for _, g := range sums {
		groups = append(groups, *g)
	}
	return totals, groups
}
