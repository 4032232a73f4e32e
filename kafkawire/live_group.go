package kafkawire

import (
	"sync"
	"time"
)

// liveGroup is a group with what its callers wait on.
type liveGroup struct {
	name  string // immutable
	epoch int64  // immutable: of its slot, when this broker was first asked for it

	mu       sync.Mutex
	group    *group         // a classic group, or
	consumer *consumerGroup // one of the consumer protocol
	gone     bool           // no longer in groups: look again
	doubted  bool           // members could not reach us: the database had not heard this broker
	tickets  ticket
	waiting  map[ticket]chan<- groupAnswer // each with room for its one answer

	// Guarded by groups.mu:
	bytes int       // counted in groups.bytes
	empty bool      // counted in groups.kept
	alarm time.Time // when tick is due, if at ≥ 0
	at    int       // index in alarms, −1 when not there
}

// deliver hands answers to their callers. l.mu is held.
func (l *liveGroup) deliver(due []groupAnswer) {
	for _, a := range due {
		ch, ok := l.waiting[a.to]
		if !ok {
			panic("BUG: a caller is answered twice")
		}
		delete(l.waiting, a.to)
		ch <- a
	}
}

func (l *liveGroup) next() time.Time {
	if l.consumer != nil {
		return l.consumer.next()
	}
	return l.group.next()
}

func (l *liveGroup) size() int {
	if l.consumer != nil {
		return l.consumer.bytes
	}
	return l.group.bytes
}

func (l *liveGroup) forgettable() bool {
	if l.consumer != nil {
		return l.consumer.forgettable()
	}
	return l.group.forgettable()
}

// tick does what is due.
func (l *liveGroup) tick(now time.Time) {
	if l.consumer != nil {
		l.consumer.tick(now)
		return
	}
	l.deliver(l.group.tick(now))
}

// resume gives everybody time again after members could not reach the group.
func (l *liveGroup) resume(now time.Time) {
	if l.consumer != nil {
		l.consumer.resume(now)
		return
	}
	l.group.resume(now)
}

// populated says whether somebody is in the group.
func (l *liveGroup) populated() bool {
	if l.consumer != nil {
		return len(l.consumer.members) > 0
	}
	return len(l.group.members) > 0
}

// kept says whether the group has nobody in it, but is not forgotten yet.
func (l *liveGroup) kept() bool {
	if l.consumer != nil {
		return len(l.consumer.members) == 0
	}
	return l.group.idle() && l.group.generation > 0
}
