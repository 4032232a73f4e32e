package queen

import (
	"container/heap"
	"container/list"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"queenmq/store"
)

// The bounds and times of the hotlist.
const (
	popSetsMax   = 20_000
	popSetIdle   = time.Minute           // a selection nobody pops from is forgotten
	popTick      = 20 * time.Millisecond // how exactly the end of a lease or delay is met
	lookTick     = 5 * popTick           // how exactly the time of a look is
	popBusyFor   = 5 * time.Millisecond
	popLookAlone = 5 * time.Second // between looks at the database for parked pops
	popLookPeers = time.Second     // …, when other brokers may lease, fail and create
)

// popKey is a selection of partitions and the group that pops from it.
type popKey struct{ queue, partition, namespace, task, group string }

// covers says whether a partition belongs to the selection.
func (k *popKey) covers(p *partition) bool {
	return (k.partition == "" || k.partition == p.name) && k.coversQueue(p.queue.describe())
}

// coversQueue says so of a queue's labels.
func (k *popKey) coversQueue(q Queue) bool {
	return (k.namespace == "" || k.namespace == q.Options.Namespace) && (k.task == "" || k.task == q.Options.Task)
}

// hotlist knows of each selection that is popped from which partitions probably
// have something to claim, and which will when a lease or a delay ends. It only
// proposes: the claim judges. What it may miss (other brokers' doings, what nobody
// told it) is found by looks at the database, one for all selections at a time, so
// that a parked pop costs neither a connection nor a statement.
//
// It is told of writes after they are committed; a pop parks only while nothing is
// hot, under the same lock, so no wake-up is lost.
type hotlist struct {
	started chan struct{} // holds one: there are sets to look after

	lookPartitionsMax int // partitions in one statement of a look, but those of one queue; immutable

	count atomic.Int64 // of sets

	mu       sync.Mutex
	sets     map[popKey]*popSet
	byQueue  map[string]map[*popSet]struct{}
	labelled map[*popSet]struct{}
	held     map[heldKey]map[*popSet]struct{} // who waits for the end of what
	keeping  int                              // partitions kept back, over all sets
	ends     keptEnds                         // of those
}

// heldKey is a partition as a group sees it.
type heldKey struct {
	group     string
	partition int64
}

// popSet is one selection. All but key, began, start and looking is guarded by hotlist.mu.
type popSet struct {
	key   popKey
	began time.Time // when the group first asked
	start store.Subscription

	looking chan struct{} // holds one: whoever looks on its behalf

	hot   []*partition // first in, first out
	isHot map[int64]bool
	kept  map[int64]keptBack

	waiting list.List // of *popWaiter, first come first served
	users   int       // pops inside
	usedAt  time.Time

	lookedAt   time.Time           // when the last look began
	lookTook   time.Duration       // how much work it was
	changes    int64               // of the catalog, seen at the last look
	sole       store.Registrations // since before the last look nobody else writes; zero: others may
	partial    bool                // the last look found more than it took
	queues     []*queue
	subscribed map[int64]bool // by queue
}

// keptBack is a partition that has nothing to claim before a moment.
type keptBack struct {
	p    *partition
	at   time.Time
	news bool // something was written to it since
}

// popWaiter is a parked pop.
type popWaiter struct {
	wake chan struct{} // holds one wake-up
	at   *list.Element // guarded by hotlist.mu; nil: not waiting, or woken
}

func newHotlist() *hotlist {
	return &hotlist{
		started: make(chan struct{}, 1), lookPartitionsMax: lookPartitionsMax,
		sets: map[popKey]*popSet{}, byQueue: map[string]map[*popSet]struct{}{},
		labelled: map[*popSet]struct{}{}, held: map[heldKey]map[*popSet]struct{}{},
	}
}

// enter finds or makes the set of a selection, which stays until leave at
// least. The error is ErrOverloaded.
func (h *hotlist) enter(key popKey, start store.Subscription) (*popSet, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sets[key]
	if s == nil {
		if len(h.sets) >= popSetsMax && !h.evict() {
			return nil, fmt.Errorf("%w: %d selections of queues and groups are popped from at once", ErrOverloaded, len(h.sets))
		}
		s = &popSet{key: key, began: time.Now(), start: start, looking: make(chan struct{}, 1), isHot: map[int64]bool{}, kept: map[int64]keptBack{}, subscribed: map[int64]bool{}}
		h.sets[key] = s
		h.count.Add(1)
		if key.queue == "" {
			h.labelled[s] = struct{}{}
		} else {
			if h.byQueue[key.queue] == nil {
				h.byQueue[key.queue] = map[*popSet]struct{}{}
			}
			h.byQueue[key.queue][s] = struct{}{}
		}
		select {
		case h.started <- struct{}{}:
		default:
		}
	}
	s.users++
	return s, nil
}

func (h *hotlist) leave(s *popSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.users--
	s.usedAt = time.Now()
}

// evict drops one set that nobody is in. Called with mu held.
func (h *hotlist) evict() bool {
	for _, s := range h.sets {
		if s.users == 0 {
			h.drop(s)
			return true
		}
	}
	return false
}

func (h *hotlist) drop(s *popSet) {
	delete(h.sets, s.key)
	h.count.Add(-1)
	delete(h.labelled, s)
	if m := h.byQueue[s.key.queue]; m != nil {
		delete(m, s)
		if len(m) == 0 {
			delete(h.byQueue, s.key.queue)
		}
	}
	for id := range s.kept {
		h.release(s, id)
	}
}

// take takes up to n candidates, and wakes the next waiter where more are left.
func (h *hotlist) take(s *popSet, n int) []*partition {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ripen(time.Now())
	var taken []*partition
	for len(taken) < n && len(s.hot) > 0 {
		p := s.hot[0]
		s.hot = s.hot[1:]
		if s.isHot[p.id] { // else it was leased meanwhile
			delete(s.isHot, p.id)
			taken = append(taken, p)
		}
	}
	if len(s.hot) == 0 {
		s.hot = nil // not to keep what lies before
	} else if len(taken) > 0 {
		s.wakeOne()
	}
	return taken
}

// add makes partitions hot.
func (h *hotlist) add(s *popSet, parts ...*partition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range parts {
		h.heat(s, p)
	}
}

// heat makes a partition hot and wakes a waiter. Called with mu held.
func (h *hotlist) heat(s *popSet, p *partition) {
	if _, ok := s.kept[p.id]; ok {
		h.release(s, p.id)
	}
	if !s.isHot[p.id] {
		s.isHot[p.id] = true
		s.hot = append(s.hot, p)
	}
	s.wakeOne()
}

// leased keeps a partition back that was just claimed. Whatever was written to it
// meanwhile waits for the lease.
func (h *hotlist) leased(s *popSet, p *partition, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(s.isHot, p.id)
	h.keep(s, p, d)
}

// later keeps a partition back for a time, unless there was news of it meanwhile.
func (h *hotlist) later(s *popSet, p *partition, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !s.isHot[p.id] {
		h.keep(s, p, d)
	}
}

// keep is called with mu held.
func (h *hotlist) keep(s *popSet, p *partition, d time.Duration) {
	if h.sets[s.key] != s {
		return // forgotten meanwhile
	}
	h.keepUntil(s, p, time.Now().Add(d))
	k := heldKey{s.key.group, p.id}
	if h.held[k] == nil {
		h.held[k] = map[*popSet]struct{}{}
	}
	h.held[k][s] = struct{}{}
}

// release forgets that a partition is kept back. Called with mu held.
func (h *hotlist) release(s *popSet, id int64) {
	if _, back := s.kept[id]; back {
		delete(s.kept, id)
		h.keeping--
	}
	k := heldKey{s.key.group, id}
	delete(h.held[k], s)
	if len(h.held[k]) == 0 {
		delete(h.held, k)
	}
}

// tick makes hot what is due.
func (h *hotlist) tick(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ripen(now)
}

// ripen makes hot what is kept back no longer, and says how many ends it looked at,
// which are those that have come. Called with mu held.
func (h *hotlist) ripen(now time.Time) (looked int) {
	for len(h.ends) > 0 && !h.ends[0].at.After(now) {
		end := heap.Pop(&h.ends).(keptEnd)
		looked++
		if k, ok := end.set.kept[end.id]; ok && k.at.Equal(end.at) { // else it was given back, or kept anew
			h.heat(end.set, k.p)
		}
	}
	return looked
}

// keepUntil notes that a partition is kept back, and when that ends. Called with mu held.
func (h *hotlist) keepUntil(s *popSet, p *partition, at time.Time) {
	if _, back := s.kept[p.id]; !back {
		h.keeping++
	}
	s.kept[p.id] = keptBack{p: p, at: at}
	heap.Push(&h.ends, keptEnd{at, s, p.id})
	if len(h.ends) > 2*h.keeping+keptEndsMin {
		h.ends = slices.DeleteFunc(h.ends, func(end keptEnd) bool {
			k, back := end.set.kept[end.id]
			return !back || !k.at.Equal(end.at)
		})
		heap.Init(&h.ends)
	}
}

// keptEnds is a heap of when partitions are kept back no longer, the soonest first, over
// all sets: most of them have none for long, and need not be asked each tick. Those
// that were given back before leave it when their time comes, or most of it is such.
type keptEnds []keptEnd

// keptEndsMin is how many ends may lie there for nothing.
const keptEndsMin = 100

type keptEnd struct {
	at  time.Time
	set *popSet
	id  int64 // of the partition
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (k keptEnds) Len() int           { return len(k) }
func (k keptEnds) Less(i, j int) bool { return k[i].at.Before(k[j].at) }
func (k keptEnds) Swap(i, j int)      { k[i], k[j] = k[j], k[i] }
func (k *keptEnds) Push(x any)        { *k = append(*k, x.(keptEnd)) }
func (k *keptEnds) Pop() any {
	last := len(*k) - 1
	x := (*k)[last]
	*k = (*k)[:last]
	return x
}

// wrote tells that something was stored in a partition, or a group was moved
// there. What is kept back stays so.
func (h *hotlist) wrote(p *partition) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.byQueue[p.queue.name()] {
		h.news(s, p)
	}
	for s := range h.labelled {
		h.news(s, p)
	}
}

func (h *hotlist) news(s *popSet, p *partition) {
	if k, back := s.kept[p.id]; back {
		k.news = true
		s.kept[p.id] = k
	} else if s.key.covers(p) {
		h.heat(s, p)
	}
}

// moved tells that a group was moved in a partition: whatever lease was there is void.
func (h *hotlist) moved(group string, p *partition) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.held[heldKey{group, p.id}] {
		h.heat(s, p)
	}
	for s := range h.byQueue[p.queue.name()] {
		if s.key.group == group {
			h.news(s, p)
		}
	}
	for s := range h.labelled {
		if s.key.group == group {
			h.news(s, p)
		}
	}
}

// forgotten tells that positions of a group are gone: what it could claim is asked
// anew.
func (h *hotlist) forgotten(group string) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, s := range h.sets {
		if k.group == group {
			s.lookedAt = time.Time{}
		}
	}
}

// ended tells that nothing of a group's is leased any more in a partition, and
// that it can be claimed after a delay where more is there, or was written since
// whoever says so looked.
func (h *hotlist) ended(group string, id int64, more bool, delay time.Duration) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.held[heldKey{group, id}] {
		switch k := s.kept[id]; {
		case !more && !k.news:
			h.release(s, id)
		case delay > 0:
			h.keepUntil(s, k.p, time.Now().Add(delay))
		default:
			h.heat(s, k.p)
		}
	}
}

// heldPartition is the partition of an id that something is kept back in.
func (h *hotlist) heldPartition(group string, id int64) *partition {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.held[heldKey{group, id}] {
		return s.kept[id].p
	}
	return nil
}

// fresh says whether the set was looked at so lately that what is not on it can
// be waited for.
func (h *hotlist) fresh(s *popSet, every time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !s.partial && time.Since(s.lookedAt) < 2*s.lookEvery(every)
}

// park registers a waiter, unless something is hot.
func (h *hotlist) park(s *popSet, w *popWaiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(s.hot) > 0 {
		return false
	}
	w.at = s.waiting.PushBack(w)
	return true
}

// unpark takes a waiter out. One that was woken and will not look passes it on.
func (h *hotlist) unpark(s *popSet, w *popWaiter, looks bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.at != nil {
		s.waiting.Remove(w.at)
		w.at = nil
		return
	}
	select {
	case <-w.wake:
	default:
	}
	if len(s.hot) > 0 && !looks {
		s.wakeOne()
	}
}

// wakeOne wakes the waiter that came first. Called with mu held.
func (s *popSet) wakeOne() {
	if first := s.waiting.Front(); first != nil {
		w := s.waiting.Remove(first).(*popWaiter)
		w.at = nil
		w.wake <- struct{}{} // empty: it is filled once per park
	}
}
