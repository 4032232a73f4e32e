package queen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"queenmq/store"
)

// The bounds of one look.
const (
	lookSetsMax = 500 // selections in one look
	// A statement over 100,000 partitions took 0.35 s of a core: so many at once, and it
	// may take a while longer before it takes too long.
	lookPartitionsMax = 100_000
	lookRowsMax       = 20_000 // partitions found by one statement
	lookShare         = 20     // looks for parked pops take one part in so many of the time
	lookAlone         = 100    // …, where nobody else can have made anything to claim
)

// workOf is how much of the time that a look at so many partitions took may have been
// work: at most ten times what it takes of a core (4 µs each, and a trip). What took longer
// waited, for a connection or for a server that starts, and who has a share of the time
// would look seldom then, when much has changed: after a storm of lost connections a look
// of 0.4 s was followed by a pause of 40.
func workOf(took time.Duration, partitions int) time.Duration {
	return min(took, 5*time.Millisecond+time.Duration(partitions)*40*time.Microsecond)
}

// lookEvery is how old the knowledge behind a parked pop may get.
func (e *Engine) lookEvery() time.Duration {
	if e.brokers.alone() {
		return popLookAlone
	}
	return popLookPeers
}

// lookAfter looks after the sets of the hotlist: it makes hot what is due, looks at
// the database where pops are parked, and forgets sets nobody uses. It sleeps while
// there are none.
func (e *Engine) lookAfter(ctx context.Context) {
	failed := e.failed("look for messages to pop")
	var sought time.Time // when it was last asked which sets want a look
	var next time.Time   // looks have a share of the time
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.hotlist.started:
		}
		for e.hotlist.count.Load() > 0 || e.orphans.any() {
			if sleep(ctx, popTick); ctx.Err() != nil {
				return
			}
			now := time.Now()
			if e.hotlist.tick(now); now.Sub(sought) < lookTick {
				continue
			}
			sought = now
			due := e.hotlist.due(now, e.lookEvery(), e.catalog.seen.Load())
			if len(due) > 0 && !e.brokers.alone() {
				e.watchSets(due)
			}
			if len(due) > 0 && !now.Before(next) {
				sets := e.hotlist.batch(due)
				if err := e.lookFor(ctx, sets); err == nil {
					next = time.Now().Add(lookShare * e.hotlist.lookTook(sets[0]))
				} else if ctx.Err() == nil {
					failed(err)
				}
			}
			e.orphans.release(ctx, e)
		}
	}
}

// due forgets sets that nobody used for long, and lists those with parked pops that
// want a look.
func (h *hotlist) due(now time.Time, every time.Duration, changes int64) (due []*popSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sets {
		switch {
		case s.users == 0:
			if now.Sub(s.usedAt) > popSetIdle {
				h.drop(s)
			}
		case s.waiting.Len() > 0:
			soon := s.changes != changes || s.partial && len(s.hot) == 0
			if pause := now.Sub(s.lookedAt); pause >= s.lookEvery(every) || soon && pause >= s.lookEvery(0) {
				due = append(due, s)
			}
		}
	}
	return due
}

// batch is what one look takes of the sets that want one: those that were looked at
// longest ago first, until they have lookPartitionsMax partitions together. The
// others wait for the next.
func (h *hotlist) batch(due []*popSet) []*popSet {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(due, func(a, b *popSet) int { return a.lookedAt.Compare(b.lookedAt) })
	n := 0
	for i, s := range due {
		if n += s.partitions(); i > 0 && n > h.lookPartitionsMax || i == lookSetsMax {
			return due[:i]
		}
	}
	return due
}

// partitions is how many a look at the set is over. Called with mu held.
func (s *popSet) partitions() (n int) {
	for _, q := range s.queues {
		if s.key.partition == "" {
			n += q.describe().Partitions
		}
	}
	return n
}

// lookEvery is the pause between looks of a set: as long as any set's, and so long
// that one over many partitions, which takes time, is seldom.
func (s *popSet) lookEvery(every time.Duration) time.Duration {
	share := time.Duration(lookShare)
	if s.sole != (store.Registrations{}) {
		share = lookAlone
	}
	return max(every, share*s.lookTook)
}

// lookTook is how much work the last look at a set was.
func (h *hotlist) lookTook(s *popSet) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.lookTook
}

// watchSets has other brokers' writes to the sets' partitions polled for.
func (e *Engine) watchSets(sets []*popSet) {
	now := time.Now()
	for _, s := range sets {
		for _, q := range e.hotlist.chosen(s) {
			for _, p := range q.all() {
				if s.key.covers(p) {
					e.watches.add(p, now)
				}
			}
		}
	}
}

// lookShared has the database asked what a set's group could claim, by whoever is first:
// pops that came before a look began share it.
func (e *Engine) lookShared(ctx context.Context, s *popSet, came time.Time) error {
	if known, err := e.knowsAll(ctx, s); known || err != nil {
		return err
	}
	select {
	case s.looking <- struct{}{}:
		defer func() { <-s.looking }()
	case <-ctx.Done():
		return fmt.Errorf("pop: %w", context.Cause(ctx))
	}
	if e.hotlist.lookedSince(s, came) {
		return nil
	}
	return e.lookFor(ctx, []*popSet{s})
}

// knowsAll says whether what a set's group could claim is on the hotlist, or kept
// back there: the database was asked lately, and says that no other broker was there
// to change anything since. That is one row; a look is over all partitions.
func (e *Engine) knowsAll(ctx context.Context, s *popSet) (bool, error) {
	e.hotlist.mu.Lock()
	was, lately := s.sole, !s.partial && time.Since(s.lookedAt) < s.lookEvery(popLookAlone)
	e.hotlist.mu.Unlock()
	if !lately || was == (store.Registrations{}) {
		return false, nil
	}
	now, err := e.sole(ctx)
	return now == was, err
}

// sole is what the database says of registrations while nobody else may write;
// zero: others may.
func (e *Engine) sole(ctx context.Context) (store.Registrations, error) {
	if !e.brokers.alone() {
		return store.Registrations{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	r, others, err := e.db.Registrations(ctx, e.brokers.cfg.Instance)
	if err != nil {
		return store.Registrations{}, storeError("look for other brokers", err)
	}
	if others {
		return store.Registrations{}, nil
	}
	return r, nil
}

// lookedSince says whether a set was looked at in a look that began after a moment.
func (h *hotlist) lookedSince(s *popSet, t time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.lookedAt.After(t)
}

// lookFor asks the database what the sets' groups could claim, subscribes them where
// they did not, and puts it on the hotlist.
func (e *Engine) lookFor(ctx context.Context, sets []*popSet) error {
	changes := e.catalog.seen.Load()
	now := time.Now()
	sole, err := e.sole(ctx) // first: the look finds what was written before
	if err != nil {
		return err
	}
	if err := e.lookUp(ctx, sets, changes); err != nil {
		return err
	}
	l := look{e: e}
	for _, s := range sets {
		if s.key.partition != "" {
			continue
		}
		for _, q := range e.hotlist.chosen(s) {
			if err := l.take(ctx, s, q); err != nil {
				return err
			}
		}
	}
	if err := l.ask(ctx); err != nil {
		return err
	}
	e.hotlist.mu.Lock()
	defer e.hotlist.mu.Unlock()
	took := workOf(time.Since(now), l.over+len(sets))
	for _, s := range sets {
		s.lookedAt, s.lookTook, s.changes = now, took, changes
		s.sole, s.partial = sole, l.partial
	}
	return nil
}

// lookUp resolves the queues of sets and subscribes the groups there. A partition
// that a set names is hot at once: it is dearer to look at than to try.
func (e *Engine) lookUp(ctx context.Context, sets []*popSet, changes int64) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	if err := e.selectQueues(ctx, sets, changes); err != nil {
		return err
	}
	for _, s := range sets {
		if err := e.subscribe(ctx, s); err != nil {
			return err
		}
		if s.key.partition == "" {
			continue
		}
		for _, q := range e.hotlist.chosen(s) {
			if p, err := e.lookupNamed(ctx, q.name(), s.key.partition); err == nil {
				e.hotlist.add(s, p)
			} else if !errors.Is(err, ErrUnknownQueue) && !errors.Is(err, ErrUnknownPartition) {
				return err
			}
		}
	}
	return nil
}

// selectQueues resolves the queues of sets: those of a name in one statement, those
// by labels anew whenever the catalog changed.
func (e *Engine) selectQueues(ctx context.Context, sets []*popSet, changes int64) error {
	var refs []QueueRef
	var named []*popSet
	var all []Queue
	for _, s := range sets {
		if s.key.queue != "" {
			refs, named = append(refs, QueueRef{Name: s.key.queue}), append(named, s)
			continue
		}
		if all == nil {
			var err error
			if all, err = e.AllQueues(ctx); err != nil {
				return err
			}
		}
		var labelled []QueueRef
		for _, q := range all {
			if s.key.coversQueue(q) {
				labelled = append(labelled, QueueRef{Name: q.Name})
			}
		}
		queues, err := e.catalog.queues(ctx, labelled)
		if err != nil {
			return err
		}
		e.hotlist.choose(s, queues)
	}
	queues, err := e.catalog.queues(ctx, refs)
	if err != nil {
		return err
	}
	for i, s := range named {
		q := queues[i]
		if q != nil && !s.key.coversQueue(q.describe()) {
			q = nil
		}
		e.hotlist.choose(s, []*queue{q})
	}
	return nil
}

// choose sets the queues of a set; nil ones are not there.
func (h *hotlist) choose(s *popSet, queues []*queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.queues = slices.DeleteFunc(slices.Clone(queues), func(q *queue) bool { return q == nil })
}

// chosen are the queues of a set, as last resolved.
func (h *hotlist) chosen(s *popSet) []*queue {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.queues
}

// subscribe notes where the set's group begins in queues it meets the first time.
func (e *Engine) subscribe(ctx context.Context, s *popSet) error {
	e.hotlist.mu.Lock()
	var fresh []int64
	for _, q := range s.queues {
		if !s.subscribed[q.id] {
			fresh = append(fresh, q.id)
		}
	}
	start := s.start
	start.Ago = time.Since(s.began)
	e.hotlist.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	slices.Sort(fresh)
	if err := e.db.Subscribe(ctx, fresh, s.key.group, start); err != nil {
		return storeError("subscribe", err)
	}
	e.hotlist.mu.Lock()
	defer e.hotlist.mu.Unlock()
	for _, id := range fresh {
		s.subscribed[id] = true
	}
	return nil
}
