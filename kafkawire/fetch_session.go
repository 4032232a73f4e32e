package kafkawire

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetch sessions (KIP-227): the broker remembers which partitions a consumer
// asks for, so that requests name only what changed and replies hold only what
// is new. Memory of a session is a convenience: a client told that its session
// is unknown starts again with a full fetch.
//
//	id 0, epoch −1     no session            → every partition answered
//	id x, epoch −1     close x, no session   → every partition answered
//	id any, epoch 0    close it, make one    → every partition answered, with the new id (0: none is given)
//	id x, epoch 1, 2 … the next of x         → only partitions with news
//
// Errors: 70 no such session, 71 not the epoch expected, 106 topic ids where the
// session knows names or the reverse.
//
// One request of a session is under way at a time, whichever connections they come
// by: a next one before the answer is 71, and whoever closes or replaces the session
// ends the wait of the one under way, which is told 70. A request of a few bytes may
// wait for very many partitions, so without this rule the number of connections, not
// partitionsMax, would bound how many readers wait (queen.Config.WaitersMax). No
// client has two at once: it has to have the answer to know what to ask for next.
const (
	sessionNone  int32 = 0
	epochInitial int32 = 0
	epochFinal   int32 = -1
)

// sessionIdleMin is how long a session must have been unused before a new one
// may take its place (Kafka: min.incremental.fetch.session.eviction.ms).
const sessionIdleMin = 2 * time.Minute

// sessionCache holds the fetch sessions of all connections; a client may go on
// with its session on another connection.
type sessionCache struct {
	sessionsMax   int
	partitionsMax int

	mu         sync.Mutex
	byID       map[int32]*session
	partitions int // over all sessions
	newID      func() int32
}

func newSessionCache(sessionsMax, partitionsMax int) *sessionCache {
	return &sessionCache{
		sessionsMax: sessionsMax, partitionsMax: partitionsMax,
		byID:  make(map[int32]*session),
		newID: func() int32 { return rand.Int32N(math.MaxInt32-1) + 1 },
	}
}

// session is what is remembered of one consumer. Guarded by the cache's mu.
type session struct {
	id     int32
	epoch  int32 // expected next
	byID   bool  // knows topic ids, not names
	used   time.Time
	parts  []*sessionPartition // in the order in which they are served
	lookup map[partitionKey]*sessionPartition

	// stop ends the wait of the request under way; nil: there is none. While there is
	// one, the partitions count, also when the session is forgotten.
	stop context.CancelCauseFunc
}

// errSessionClosed is why a Fetch waits no longer.
var errSessionClosed = errors.New("its fetch session was closed or replaced")

// sessionPartition is one partition of a session, and what was last said of it.
type sessionPartition struct {
	asked     askedPartition
	highMark  int64
	logStart  int64
	forgotten bool
}

// fetchPlan is a Fetch between its request and its reply.
type fetchPlan struct {
	cache   *sessionCache
	asked   []askedPartition
	create  bool
	byID    bool
	session *session            // of an incremental fetch
	parts   []*sessionPartition // of asked, in an incremental fetch
}

// begin judges the session of a request and gives the partitions to be read; stop
// ends its wait with errSessionClosed. A code other than none is the whole reply, else
// the plan must be ended.
func (s *sessionCache) begin(req *kmsg.FetchRequest, now time.Time, stop context.CancelCauseFunc) (*fetchPlan, int16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byID := req.Version >= 13
	if req.SessionEpoch == epochInitial || req.SessionEpoch == epochFinal {
		if old := s.byID[req.SessionID]; old != nil {
			s.remove(old)
		}
		return s.full(req, byID, req.SessionEpoch == epochInitial), codeNone
	}
	ses := s.byID[req.SessionID]
	switch {
	case ses == nil:
		return nil, codeFetchSessionIDNotFound
	case ses.epoch != req.SessionEpoch || ses.stop != nil:
		return nil, codeInvalidFetchSessionEpoch
	case ses.byID != byID:
		return nil, codeFetchSessionTopicID
	}
	s.update(ses, req)
	if len(ses.parts) == 0 {
		s.remove(ses)
		return s.full(req, byID, false), codeNone
	}
	if ses.epoch++; ses.epoch < 0 { // wrapped
		ses.epoch = 1
	}
	ses.used, ses.stop = now, stop
	p := &fetchPlan{cache: s, session: ses, parts: append([]*sessionPartition(nil), ses.parts...)}
	p.asked = make([]askedPartition, len(p.parts))
	for i, sp := range p.parts {
		p.asked[i] = sp.asked
	}
	return p, codeNone
}

func (s *sessionCache) full(req *kmsg.FetchRequest, byID, create bool) *fetchPlan {
	p := &fetchPlan{cache: s, create: create && req.Version >= 7, byID: byID}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p.asked = append(p.asked, asked(t, &t.Partitions[j]))
		}
	}
	return p
}

// update applies what a request says about its session's partitions. At the
// bound on partitions new ones are left out of the session's memory by
// forgetting the session, after this reply.
func (s *sessionCache) update(ses *session, req *kmsg.FetchRequest) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			a := asked(t, &t.Partitions[j])
			if sp := ses.lookup[a.partitionKey]; sp != nil {
				sp.asked = a
				continue
			}
			s.add(ses, a, -1, -1)
		}
	}
	gone := false
	for _, t := range req.ForgottenTopics {
		for _, number := range t.Partitions {
			key := partitionKey{topic: t.Topic, id: t.TopicID, number: number}
			if sp := ses.lookup[key]; sp != nil {
				sp.forgotten, gone = true, true
				delete(ses.lookup, key)
				s.partitions--
			}
		}
	}
	if gone {
		kept := ses.parts[:0]
		for _, sp := range ses.parts {
			if !sp.forgotten {
				kept = append(kept, sp)
			}
		}
		clear(ses.parts[len(kept):])
		ses.parts = kept
	}
}

func (s *sessionCache) add(ses *session, a askedPartition, highMark, logStart int64) {
	if old := ses.lookup[a.partitionKey]; old != nil {
		old.asked, old.highMark, old.logStart = a, highMark, logStart
		return
	}
	sp := &sessionPartition{asked: a, highMark: highMark, logStart: logStart}
	ses.parts = append(ses.parts, sp)
	ses.lookup[a.partitionKey] = sp
	s.partitions++
}

// end lets the next request of the session come. It may be called after finish or
// without it.
func (p *fetchPlan) end() {
	if p.session == nil {
		return
	}
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	p.session.stop = nil
	if p.cache.byID[p.session.id] != p.session { // forgotten meanwhile
		p.cache.partitions -= len(p.session.parts)
	}
}

// finish says which partitions the reply holds and which session it names.
func (p *fetchPlan) finish(answers []partitionAnswer, now time.Time) (sessionID int32, include []bool) {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	include = make([]bool, len(answers))
	if p.session == nil {
		for i := range include {
			include[i] = true
		}
		if p.create {
			sessionID = p.cache.create(p.asked, answers, p.byID, now)
		}
		return sessionID, include
	}
	full := make(map[*sessionPartition]bool) // those with records go to the end of the line
	for i, a := range answers {
		sp := p.parts[i]
		include[i] = len(a.Batches) > 0 || a.code != codeNone || a.Diverging != nil ||
			a.HighWatermark != sp.highMark || a.LogStart != sp.logStart
		sp.highMark, sp.logStart = a.HighWatermark, a.LogStart
		if a.code != codeNone {
			sp.highMark = -1 // the end of the error is news, too
		}
		if len(a.Batches) > 0 {
			full[sp] = true
		}
	}
	p.session.rotate(full)
	if p.cache.partitions > p.cache.partitionsMax {
		p.cache.remove(p.session)
	}
	return p.session.id, include
}

// rotate moves partitions to the end of the line, so that one with much to read
// does not keep the bytes of every reply from those behind it.
func (ses *session) rotate(last map[*sessionPartition]bool) {
	if len(last) == 0 || len(last) == len(ses.parts) {
		return
	}
	front := make([]*sessionPartition, 0, len(ses.parts))
	var back []*sessionPartition
	for _, sp := range ses.parts {
		if last[sp] {
			back = append(back, sp)
		} else {
			front = append(front, sp)
		}
	}
	ses.parts = append(front, back...)
}

// create remembers a new session, if there is room or an idle one to evict.
func (s *sessionCache) create(parts []askedPartition, answers []partitionAnswer, byID bool, now time.Time) int32 {
	if len(parts) == 0 || len(parts) > s.partitionsMax {
		return sessionNone
	}
	for len(s.byID) >= s.sessionsMax || s.partitions+len(parts) > s.partitionsMax {
		if !s.evict(now) {
			return sessionNone
		}
	}
	ses := &session{epoch: 1, byID: byID, used: now, lookup: make(map[partitionKey]*sessionPartition, len(parts))}
	for ses.id == sessionNone || s.byID[ses.id] != nil {
		ses.id = s.newID()
	}
	for i, a := range parts {
		highMark := answers[i].HighWatermark
		if answers[i].code != codeNone {
			highMark = -1
		}
		s.add(ses, a, highMark, answers[i].LogStart)
	}
	s.byID[ses.id] = ses
	return ses.id
}

// evict removes the session unused for longest, if it is idle.
func (s *sessionCache) evict(now time.Time) bool {
	var oldest *session
	for _, ses := range s.byID {
		if ses.stop != nil {
			continue // in use
		}
		if oldest == nil || ses.used.Before(oldest.used) {
			oldest = ses
		}
	}
	if oldest == nil || now.Sub(oldest.used) < sessionIdleMin {
		return false
	}
	s.remove(oldest)
	return true
}

func (s *sessionCache) remove(ses *session) {
	if s.byID[ses.id] != ses {
		return
	}
	delete(s.byID, ses.id)
	if ses.stop != nil {
		ses.stop(errSessionClosed)
		return // they count until it has ended
	}
	s.partitions -= len(ses.parts)
}
