package queen

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// stumbles remembers which batches of idempotent producers were not stored, as far as
// is known, and will come again. A partition that knows nothing of a producer takes
// any sequence from it (its state may have expired). Without this memory the batches
// sent behind its first one would be stored in that one's place: it would be refused
// when it comes again, and a client that then begins anew stores them twice.
//
// Forgetting is always allowed: it is then as in Kafka. The zero value remembers
// nothing. It is safe for concurrent use.
type stumbles struct {
	n  atomic.Int64 // of m, which hardly ever holds anything
	mu sync.Mutex
	m  map[stumbler]stumble
}

// stumbler is a producer in a partition, which is named as its requests name it.
type stumbler struct {
	ref      QueueRef
	number   int32
	producer int64
}

// stumble is the first of its batches that failed.
type stumble struct {
	epoch    int16
	sequence int32
	until    time.Time
}

const (
	stumblesMax = 10_000      // more are not noted
	stumbleKept = time.Minute // clients repeat sooner
)

// willRepeat says whether clients send again what failed with err.
func willRepeat(err error) bool {
	for _, e := range []error{ErrOutcomeUnknown, ErrUnavailable, ErrStorageFull, ErrTimedOut, ErrOverloaded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// failed notes a batch that failed with err, unless one before it is noted.
func (s *stumbles) failed(at stumbler, b *batchInfo, err error, now time.Time) {
	if b.ProducerID < 0 || !willRepeat(err) {
		return
	}
	at.producer = b.ProducerID
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.m[at]
	switch {
	case ok && now.Before(old.until) && (old.epoch > b.ProducerEpoch || old.epoch == b.ProducerEpoch && !comesAfter(old.sequence, b.BaseSequence)):
		return
	case !ok && len(s.m) >= stumblesMax && !s.sweep(now):
		return
	case s.m == nil:
		s.m = map[stumbler]stumble{}
	}
	s.m[at] = stumble{epoch: b.ProducerEpoch, sequence: b.BaseSequence, until: now.Add(stumbleKept)}
	s.n.Store(int64(len(s.m)))
}

// sweep drops what is too old, and says whether there is room now. mu is held.
func (s *stumbles) sweep(now time.Time) bool {
	for k, v := range s.m {
		if !now.Before(v.until) {
			delete(s.m, k)
		}
	}
	s.n.Store(int64(len(s.m)))
	return len(s.m) < stumblesMax
}

// follows says whether a batch was sent behind one that is to come again.
func (s *stumbles) follows(at stumbler, b *batchInfo, now time.Time) bool {
	if b.ProducerID < 0 || s.n.Load() == 0 {
		return false
	}
	at.producer = b.ProducerID
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.m[at]
	return ok && now.Before(old.until) && old.epoch == b.ProducerEpoch && comesAfter(b.BaseSequence, old.sequence)
}

// stored forgets about a producer: something of it is in the log.
func (s *stumbles) stored(at stumbler, b *batchInfo) {
	if b.ProducerID < 0 || s.n.Load() == 0 {
		return
	}
	at.producer = b.ProducerID
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, at)
	s.n.Store(int64(len(s.m)))
}

// comesAfter orders two sequence numbers on their circle of 2^31: b lies less than
// half of it behind a.
func comesAfter(a, b int32) bool {
	distance := (int64(a) - int64(b)) & math.MaxInt32
	return distance != 0 && distance < 1<<30
}
