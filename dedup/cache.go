package dedup

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Mode says why an answer is what it is.
type Mode uint8

// The modes, from best to worst; only the first three vouch.
const (
	Vouched    Mode = iota // nothing of the question is known: SQL need only look above Verified
	Suspect                // something may be known: the suspect spans too
	Gap                    // as the two above, but another broker wrote after Verified
	Tiny                   // the whole window is cheaper to probe than to keep
	Cold                   // not known yet; being read back if there is a place for it
	Suppressed             // does not fit into the budget
	Off                    // switched off, or a window of 0
)

// String is the mode's name in metrics.
func (m Mode) String() string {
	return [...]string{"vouched", "suspect", "gap", "tiny", "cold", "suppressed", "off"}[m]
}

// Question asks what a push to one partition may say. Hashes that are zero
// (minted) are ignored; Next is the partition's next offset as far as known.
// Partition, Epoch and WindowSeconds must be those the append will be judged by:
// SQL refuses a window that is not the queue's.
type Question struct {
	Partition     int64
	Epoch         int32
	WindowSeconds int32
	Hashes        []Hash
	Next          int64
}

// Answer is what the push may say: within the window each of the hashes occurs
// at or below Verified in those of Suspects only that Holding names, if any. Suspects
// are in order and apart. Verified −1 vouches for nothing and is always true.
//
// All of this is from AsOf on (microseconds since 1970, by the database's clock, which
// was seen beyond it): what had left the window by then may have been forgotten. Should
// that clock be put back before it, the answer says nothing.
type Answer struct {
	Verified int64
	AsOf     int64
	Suspects []Span
	Mode     Mode
	held     holders
}

// Suspected reports whether the hash, one of those asked about, is why there
// are Suspects: it probably occurs in them.
func (a Answer) Suspected(h Hash) bool { return len(a.Holding(h)) > 0 }

// Holding returns the indexes of the Suspects that may hold the hash, one of those
// asked about. The slice is the answer's: only to read.
func (a Answer) Holding(h Hash) []int32 {
	if h.IsMinted() {
		return nil
	}
	return a.held.of(h.key())
}

// Commit tells of an append that was stored: its offsets, its creation time by
// the database's clock, and one hash per offset, or none if all were minted.
// Nothing that failed, or whose outcome is unknown, is ever told.
type Commit struct {
	Partition     int64
	Epoch         int32
	WindowSeconds int32
	Base, End     int64
	CreatedAt     time.Time
	Hashes        []Hash
}

// Cache remembers the ids in the windows of many partitions, under one budget.
// It narrows what SQL has to look through and never decides anything.
//
// Its goroutines, all started by New and ended by Close: ReadsMax readers of
// windows (reading.go), one that merges blocks into filters (merge.go), and one
// that sweeps (budget.go).
//
// Locks: an entry's, then notes'. No lock is held while a window is read or a
// filter is built, and never two entries' at once. The map of entries has none.
type Cache struct {
	cfg   Config
	start time.Time

	entries sync.Map // int64 → *entry
	count   atomic.Int64
	bytes   atomic.Int64 // charged for entries, scratch and what is being read
	notes   notes
	room    room

	reads  chan *entry
	merges chan *entry
	stop   context.CancelFunc
	wg     sync.WaitGroup

	stats counters
}

// New starts a cache.
func New(cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Cache{
		cfg: cfg, start: cfg.Now(), stop: func() {},
		reads: make(chan *entry, cfg.ReadsQueued), merges: make(chan *entry, mergesQueued),
	}
	c.notes.max = cfg.NotesMax
	if cfg.Disabled {
		return c, nil
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ended by Close
	c.stop = cancel
	for range cfg.ReadsMax {
		c.wg.Go(func() { c.runReader(ctx) })
	}
	c.wg.Go(func() { c.runMerger(ctx) })
	c.wg.Go(func() { c.runSweeper(ctx) })
	return c, nil
}

// Close ends the cache's goroutines and waits for them. The caller has stopped asking.
func (c *Cache) Close() {
	c.stop()
	c.wg.Wait()
}

// Ask answers what a push may say. It never waits for SQL.
func (c *Cache) Ask(q Question) Answer {
	a := c.ask(q)
	c.stats.answers[a.Mode].Add(1)
	return a
}

func (c *Cache) ask(q Question) Answer {
	if c.cfg.Disabled {
		return Answer{Verified: -1, Mode: Off}
	}
	e := c.lookup(q.Partition)
	if q.WindowSeconds <= 0 {
		c.drop(e)
		return Answer{Verified: -1, Mode: Off}
	}
	if e != nil && (e.epoch != q.Epoch || e.window != q.WindowSeconds) {
		c.drop(e)
		e = nil
	}
	if e == nil {
		if e = c.admit(q); e == nil {
			return c.unkept(q)
		}
	}
	now := c.cfg.Now()
	e.used.Store(c.clock(now))
	keys := make([]uint64, 0, len(q.Hashes))
	for _, h := range q.Hashes {
		if !h.IsMinted() {
			keys = append(keys, h.key())
		}
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || e.mem == nil || e.mem.hole {
		return Answer{Verified: -1, Mode: Cold}
	}
	e.seen = max(e.seen, q.Next-1)
	if e.mem.expire(e.mem.bound(now, c.cfg.Slack)) {
		c.charge(e)
	}
	a := Answer{Verified: e.mem.verified, AsOf: e.mem.asOf(), Mode: Vouched}
	if a.Suspects, a.held = e.mem.find(keys); len(a.Suspects) > 0 {
		a.Mode = Suspect
		var wide int64
		for _, s := range a.Suspects {
			wide += max(spanOffsetsMin, s.To-s.From+1)
		}
		// Reading so much through many spans costs SQL more than reading all of it once.
		if len(a.Suspects) > 1 && wide > e.mem.width()/c.cfg.SuspectsShare {
			a.Verified, a.Suspects, a.held = -1, nil, holders{}
		}
	}
	if e.seen > e.mem.verified {
		a.Mode = Gap
		c.catchUp(e, now)
	}
	return a
}

// spanOffsetsMin is how many offsets read in a row cost SQL as much as finding
// a span and the row it is in.
const spanOffsetsMin = 64

// Committed learns a stored append. Hashes are copied.
func (c *Cache) Committed(cm Commit) {
	if c.cfg.Disabled {
		return
	}
	e := c.lookup(cm.Partition)
	if cm.WindowSeconds <= 0 {
		c.drop(e)
		return
	}
	if e == nil {
		if cm.Base != 0 {
			c.notes.grew(cm.Partition, int64(len(cm.Hashes)))
			return
		}
		// The first append of all: what was there before is nothing.
		if e = c.admit(Question{Partition: cm.Partition, Epoch: cm.Epoch, WindowSeconds: cm.WindowSeconds}); e == nil {
			return
		}
	}
	if e.epoch != cm.Epoch || e.window != cm.WindowSeconds {
		c.drop(e)
		return
	}
	now := c.cfg.Now()
	e.used.Store(c.clock(now))
	if !c.learn(e, cm, now) {
		c.stats.contradictions.Add(1)
		c.drop(e) // born again by the next question
		return
	}
	c.relieve(e)
}

// learn applies a commit to its entry. It reports false when the commit
// contradicts what the entry knows.
func (c *Cache) learn(e *entry, cm Commit, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return true
	}
	defer c.charge(e)
	e.seen = max(e.seen, cm.End)
	if e.mem == nil {
		e.late.keep(cm, c.cfg.LateIDsMax)
		return true
	}
	e.mem.saw(cm.CreatedAt.UnixNano(), now)
	e.mem.expire(e.mem.bound(now, c.cfg.Slack))
	switch e.mem.commit(cm.Base, cm.End, cm.CreatedAt.UnixNano(), cm.Hashes) {
	case impossible:
		return false
	case gap:
		c.stats.gaps.Add(1)
		if e.reading {
			e.late.keep(cm, c.cfg.LateIDsMax)
		}
		c.catchUp(e, now)
	case followed:
		c.wantMerge(e)
	}
	return true
}

// Unwindowed drops what is kept of a partition whose window is 0 now. When to try it
// again, should it get one, stays as it was.
func (c *Cache) Unwindowed(partition int64) { c.drop(c.lookup(partition)) }

// Forget drops what is known about a partition.
func (c *Cache) Forget(partition int64) {
	c.drop(c.lookup(partition))
	c.notes.forget(partition)
}

// ForgetAll drops everything: the database is another incarnation.
func (c *Cache) ForgetAll() {
	c.entries.Range(func(_, v any) bool {
		c.drop(v.(*entry))
		return true
	})
	c.notes.forgetAll()
}

// clock is nanoseconds since the cache's start.
func (c *Cache) clock(now time.Time) int64 { return int64(now.Sub(c.start)) }

func (c *Cache) lookup(partition int64) *entry {
	if v, ok := c.entries.Load(partition); ok {
		return v.(*entry)
	}
	return nil
}
