package kafkawire

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"queenmq/queen"
)

// coordinatorPoll is how often a broker with groups looks whether they still are
// its own.
const coordinatorPoll = time.Second

// busyPause is how much later the clock comes back to a group that somebody is at:
// a large one may take long, and the time of the others passes meanwhile.
const busyPause = 10 * time.Millisecond

// groups holds the groups this broker coordinates, and makes their time pass.
// A group exists here while it has members or ids that are about to become
// members, and for a while after the last one went; its positions are in the database. A broker that becomes a group's
// coordinator knows nobody in it: members are told UNKNOWN_MEMBER_ID and join
// again. A group lives in one epoch of its slot: in another one it is forgotten.
//
// Locks: a liveGroup's mu, then mu. Nothing is sent or asked under either, but
// answers, into channels that have room for them.
type groups struct {
	cfg         GroupConfig                           // immutable
	coordinator func(group string) queen.Coordination // immutable
	sifted      time.Time                             // owned by the clock goroutine

	wake chan struct{} // room for one: the next alarm is earlier than the clock goroutine thinks
	stop context.CancelFunc
	done chan struct{} // closed when the clock goroutine has ended

	mu     sync.Mutex
	byName map[string]*liveGroup
	alarms alarms
	bytes  int // of all groups
	kept   int // groups that nobody is in any more
	// active are the groups that had members since populated was asked; at most
	// four times GroupsMax: one more is noted when it is asked again.
	active map[string]struct{}
}

// openGroups starts the one goroutine of groups, which lives until close or the
// end of ctx.
func openGroups(ctx context.Context, cfg GroupConfig, coordinator func(string) queen.Coordination) *groups {
	s := &groups{
		cfg: cfg, coordinator: coordinator,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		byName: map[string]*liveGroup{}, active: map[string]struct{}{},
	}
	ctx, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		s.clock(ctx)
	}()
	return s
}

// close answers whoever still waits and waits for the goroutine.
func (s *groups) close() {
	s.stop()
	<-s.done
}

// clock ticks the groups whose time has come.
func (s *groups) clock(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.ring(time.Now()))
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
			s.forget()
			return
		}
	}
}

// ring ticks what is due and returns how long there is nothing to do.
func (s *groups) ring(now time.Time) time.Duration {
	if now.Sub(s.sifted) >= coordinatorPoll {
		s.sifted = now
		for _, l := range s.all() {
			if l.mu.TryLock() {
				s.keeps(l, now)
				l.mu.Unlock()
			}
		}
	}
	for {
		s.mu.Lock()
		if len(s.alarms) == 0 {
			s.mu.Unlock()
			return time.Hour
		}
		l := s.alarms[0]
		if wait := l.alarm.Sub(now); wait > 0 {
			s.mu.Unlock()
			return min(wait, coordinatorPoll)
		}
		s.mu.Unlock()
		if !l.mu.TryLock() {
			s.postpone(l, now.Add(busyPause))
			continue
		}
		switch {
		case !s.keeps(l, now):
		case l.doubted:
			s.postpone(l, now.Add(coordinatorPoll))
		default:
			l.tick(now)
			s.settle(l)
		}
		l.mu.Unlock()
	}
}

// all lists the groups there are.
func (s *groups) all() []*liveGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*liveGroup, 0, len(s.byName))
	for _, l := range s.byName {
		all = append(all, l)
	}
	return all
}

// keeps says whether a group, whose mu is held, still is this broker's, and forgets
// it if not. While that is in doubt its time stands still: members are refused
// meanwhile, and get a whole session from when they are not.
func (s *groups) keeps(l *liveGroup, now time.Time) bool {
	if l.gone {
		return false
	}
	c := s.coordinator(l.name)
	if !c.InDoubt && (!c.Mine || c.Epoch != l.epoch) {
		s.end(l)
		return false
	}
	if l.doubted && !c.InDoubt {
		l.resume(now)
		s.settle(l)
	}
	l.doubted = c.InDoubt
	return true
}

// postpone sets the alarm of l without asking the group.
func (s *groups) postpone(l *liveGroup, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.at >= 0 {
		l.alarm = to
		heap.Fix(&s.alarms, l.at)
	}
}

// forget drops all groups.
func (s *groups) forget() {
	for _, l := range s.all() {
		s.drop(l)
	}
}

// drop forgets a group; whoever waits is told that this is not its coordinator.
func (s *groups) drop(l *liveGroup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		s.end(l)
	}
}

// end is drop of a group whose mu is held.
func (s *groups) end(l *liveGroup) {
	l.gone = true
	for t, ch := range l.waiting {
		ch <- groupAnswer{to: t, code: codeNotCoordinator, assignment: []byte{}}
	}
	clear(l.waiting)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(l)
}

// remove takes l out of the registry; mu is held.
func (s *groups) remove(l *liveGroup) {
	delete(s.byName, l.name)
	s.bytes -= l.bytes
	l.bytes = 0
	if l.empty {
		s.kept--
		l.empty = false
	}
	if l.at >= 0 {
		heap.Remove(&s.alarms, l.at)
	}
}

// find returns the named group of the epoch in which this broker coordinates it,
// locked, or nil. With create it is made if there is room for it.
func (s *groups) find(name string, under queen.Fence, create bool) *liveGroup {
	for {
		s.mu.Lock()
		l := s.byName[name]
		if l == nil && create && len(s.byName) < s.cfg.GroupsMax {
			l = &liveGroup{
				name: name, epoch: under.Epoch, group: newGroup(s.cfg.limits()),
				waiting: map[ticket]chan<- groupAnswer{}, at: -1,
			}
			s.byName[name] = l
		}
		s.mu.Unlock()
		switch {
		case l == nil:
			return nil
		case l.epoch < under.Epoch:
			s.drop(l)
			continue
		case l.epoch > under.Epoch: // the caller's look at the slot is older than the group
			return nil
		}
		l.mu.Lock()
		if !l.gone {
			return l
		}
		l.mu.Unlock()
	}
}

// settle takes note of what changed in l, whose mu is held: bytes, the next
// alarm, or that there is nothing left to keep.
func (s *groups) settle(l *liveGroup) {
	next := l.next()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[l.name] != l { // forgotten meanwhile
		return
	}
	if l.populated() && len(s.active) < 4*s.cfg.GroupsMax {
		s.active[l.name] = struct{}{}
	}
	size := l.size()
	s.bytes += size - l.bytes
	l.bytes = size
	if l.empty {
		s.kept--
	}
	l.empty = l.kept() && !l.forgettable() && s.kept < s.cfg.GroupsMax/10
	if l.empty {
		s.kept++
	}
	if l.forgettable() || l.kept() && !l.empty {
		l.gone = true
		s.remove(l)
		return
	}
	switch {
	case next.IsZero():
		panic("BUG: a group with members waits for nothing")
	case l.at < 0:
		l.alarm = next
		heap.Push(&s.alarms, l)
	default:
		l.alarm = next
		heap.Fix(&s.alarms, l.at)
	}
	if l.at == 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// wait lets f act on the named group with a ticket, and waits for its answer or
// the end of ctx. A caller that goes away is not seen by the group, as in Kafka.
// With create a missing group is made; else the answer is UNKNOWN_MEMBER_ID. Who
// joins a consumer group with members in it is refused.
func (s *groups) wait(ctx context.Context, name string, under queen.Fence, joins, create bool, f func(g *group, now time.Time, t ticket) []groupAnswer) (groupAnswer, error) {
	l := s.find(name, under, create)
	if l == nil {
		code := codeUnknownMemberID
		if create {
			code = codeCoordinatorNotAvailable
		}
		return groupAnswer{code: code, assignment: []byte{}}, nil
	}
	answered := s.act(l, joins, f)
	if answered == nil {
		code := codeUnknownMemberID
		if joins {
			code = codeInconsistentProtocol
		}
		return groupAnswer{code: code, assignment: []byte{}}, nil
	}
	select {
	case a := <-answered:
		return a, nil
	case <-ctx.Done():
		return groupAnswer{}, context.Cause(ctx)
	}
}

// act lets f act on l, which it unlocks, and returns where the answer will be; nil
// where l is no classic group.
func (s *groups) act(l *liveGroup, joins bool, f func(g *group, now time.Time, t ticket) []groupAnswer) <-chan groupAnswer {
	defer l.mu.Unlock() // also where f panics: the clock ticks the others
	if !s.classic(l, joins) {
		return nil
	}
	answered := make(chan groupAnswer, 1)
	l.tickets++
	l.waiting[l.tickets] = answered
	l.deliver(f(l.group, time.Now(), l.tickets))
	s.settle(l)
	return answered
}

// join is JoinGroup.
func (s *groups) join(ctx context.Context, name string, under queen.Fence, r joinRequest) (groupAnswer, error) {
	s.mu.Lock()
	full := s.bytes+r.size() > s.cfg.BytesMax
	s.mu.Unlock()
	if full {
		return groupAnswer{code: codeCoordinatorNotAvailable, memberID: r.memberID}, nil
	}
	a, err := s.wait(ctx, name, under, true, r.memberID == "", func(g *group, now time.Time, t ticket) []groupAnswer {
		return g.join(now, t, r)
	})
	if a.code != 0 && a.memberID == "" {
		a.memberID = r.memberID
	}
	return a, err
}

// sync is SyncGroup.
func (s *groups) sync(ctx context.Context, name string, under queen.Fence, r syncRequest) (groupAnswer, error) {
	s.mu.Lock()
	full := len(r.assignments) > 0 && s.bytes+r.size() > s.cfg.BytesMax
	s.mu.Unlock()
	if full {
		return groupAnswer{code: codeCoordinatorNotAvailable, assignment: []byte{}}, nil
	}
	return s.wait(ctx, name, under, false, false, func(g *group, now time.Time, t ticket) []groupAnswer {
		return g.sync(now, t, r)
	})
}

// heartbeat is Heartbeat. It only moves deadlines away, so the alarm stays.
func (s *groups) heartbeat(name string, under queen.Fence, memberID, instance string, generation int32) int16 {
	l := s.find(name, under, false)
	if l == nil {
		return codeUnknownMemberID
	}
	defer l.mu.Unlock()
	if l.consumer != nil {
		return codeUnknownMemberID
	}
	return l.group.heartbeat(time.Now(), memberID, instance, generation)
}

// leave is LeaveGroup.
func (s *groups) leave(name string, under queen.Fence, who []leaver) []int16 {
	l := s.find(name, under, false)
	if l == nil {
		codes := make([]int16, len(who))
		for i := range codes {
			codes[i] = codeUnknownMemberID
		}
		return codes
	}
	defer l.mu.Unlock()
	if l.consumer != nil {
		codes := make([]int16, len(who))
		for i, w := range who {
			codes[i] = l.consumer.evict(time.Now(), w)
		}
		s.settle(l)
		return codes
	}
	codes, due := l.group.leave(time.Now(), who)
	l.deliver(due)
	s.settle(l)
	return codes
}

// commit says whether a commit may be stored. A group that is not here has no
// members; if the committer has an id of our making, or of the form that members
// of consumer groups have, it had some before this broker became coordinator.
// refs lists the partitions, given the topics there are; only few commits need it.
func (s *groups) commit(name string, under queen.Fence, memberID, instance string, generation int32, version int16, refs func(*topicImage) []topicPartition) int16 {
	l := s.find(name, under, false)
	switch {
	case l != nil && l.consumer != nil:
		defer l.mu.Unlock()
		return l.consumer.commit(memberID, generation, version, func() []topicPartition { return refs(l.consumer.image) })
	case l != nil:
		defer l.mu.Unlock()
		return l.group.commit(time.Now(), memberID, instance, generation)
	case generation < 0:
		return codeNone
	case mintedMemberID(memberID) || version >= 9 && madeMemberID(memberID):
		return codeUnknownMemberID
	case version >= 9:
		return codeGroupIDNotFound
	}
	return codeIllegalGeneration
}
