package dedup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Config is what a Cache is made of. The zero value of a field means its default.
type Config struct {
	BytesMax int64 // of everything kept, scratch included; 512 MiB
	Disabled bool  // the kill switch: every answer is −1, nothing is kept
	Source   Source
	Log      *slog.Logger     // slog.Default()
	Now      func() time.Time // with a monotonic reading; time.Now

	Slack        time.Duration // added to a window on the safe side; 5 s
	Cooldown     time.Duration // a partition that did not fit is not tried again before; 30 s
	GuardFor     time.Duration // what was used so recently is never evicted; 5 s
	WarnEvery    time.Duration // one warning about suppressed partitions in; 1 min
	SweepEvery   time.Duration // idle entries are expired every; 5 s
	ReadTimeout  time.Duration // for reading one window back; 10 min
	RetryPause   time.Duration // after a failed reading; 1 s
	CatchUpPause time.Duration // between two readings of what other brokers wrote; 20 ms

	FitPercent    int   // of BytesMax a newcomer may fill; 90
	KeepMin       int64 // a window of fewer offsets is probed, not kept; 256
	ReadsMax      int   // partitions read back at once; 2
	ReadsQueued   int   // partitions waiting for that, beyond it they are asked about again; 1024
	LateIDsMax    int   // ids kept of commits that arrive while a window is read; 65,536
	NotesMax      int   // partitions remembered without an entry; 100,000
	AsksToEvict   int64 // questions during a cooldown that let a newcomer evict what was idle as long; 4
	VainIDsMax    int64 // ids SQL may read in vain per id looked up, for filters to be thinned rather than dropped; 1024
	FilterIDsMax  int   // ids under one filter; 2 Mi
	SuspectsShare int64 // suspects wider than the covered span divided by this are answered −1; 2
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Slack, 5*time.Second)
	def(&c.Cooldown, 30*time.Second)
	def(&c.GuardFor, 5*time.Second)
	def(&c.WarnEvery, time.Minute)
	def(&c.SweepEvery, 5*time.Second)
	def(&c.ReadTimeout, 10*time.Minute)
	def(&c.RetryPause, time.Second)
	def(&c.CatchUpPause, 20*time.Millisecond)
	num := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	num(&c.FitPercent, 90)
	num(&c.ReadsMax, 2)
	num(&c.ReadsQueued, 1024)
	num(&c.LateIDsMax, 1<<16)
	num(&c.NotesMax, 100_000)
	num(&c.FilterIDsMax, 2<<20)
	num64 := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	num64(&c.BytesMax, 512<<20)
	num64(&c.KeepMin, 256)
	num64(&c.AsksToEvict, 4)
	num64(&c.VainIDsMax, 1024)
	num64(&c.SuspectsShare, 2)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate() error {
	if c.Source == nil && !c.Disabled {
		return errors.New("dedup cache: a source is needed")
	}
	if c.FitPercent < 1 || c.FitPercent > 100 {
		return fmt.Errorf("dedup cache: FitPercent is %d, not within 1 to 100", c.FitPercent)
	}
	for name, v := range map[string]int64{
		"BytesMax": c.BytesMax, "KeepMin": c.KeepMin, "ReadsMax": int64(c.ReadsMax), "ReadsQueued": int64(c.ReadsQueued),
		"LateIDsMax": int64(c.LateIDsMax), "NotesMax": int64(c.NotesMax), "AsksToEvict": c.AsksToEvict,
		"VainIDsMax": c.VainIDsMax, "SuspectsShare": c.SuspectsShare,
		"Slack": int64(c.Slack), "Cooldown": int64(c.Cooldown), "GuardFor": int64(c.GuardFor), "WarnEvery": int64(c.WarnEvery),
		"SweepEvery": int64(c.SweepEvery), "ReadTimeout": int64(c.ReadTimeout), "RetryPause": int64(c.RetryPause),
		"CatchUpPause": int64(c.CatchUpPause),
	} {
		if v < 0 {
			return fmt.Errorf("dedup cache: %s is %d, below 0", name, v)
		}
	}
	if c.FilterIDsMax < filterIDsMin {
		return fmt.Errorf("dedup cache: FilterIDsMax is %d, below %d", c.FilterIDsMax, filterIDsMin)
	}
	return nil
}

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
type Answer struct {
	Verified int64
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

// entry is one partition's place in the cache. It has one window and one epoch
// for life; another one means another entry, born complete like the first.
type entry struct {
	// immutable
	partition     int64
	epoch, window int32

	used atomic.Int64 // nanoseconds since the cache's start

	mu sync.Mutex
	// guarded by mu
	dead    bool
	mem     *memory // nil until the window was read
	charged int64   // bytes of the budget that are this entry's
	reading bool    // queued or under way
	merging bool
	seen    int64 // highest offset known to exist
	nextTry time.Time
	late    late
}

// entryBytes is what an entry costs besides its memory: itself, and its place in the map.
const entryBytes = int64(unsafe.Sizeof(entry{})) + 160

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

// Close ends the cache's goroutines and waits for them. Answers are −1 after it
// only by chance: the caller stops asking first.
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
	if e.dead || e.mem == nil {
		return Answer{Verified: -1, Mode: Cold}
	}
	e.seen = max(e.seen, q.Next-1)
	if e.mem.expire(e.mem.bound(now, c.cfg.Slack)) {
		c.charge(e)
	}
	a := Answer{Verified: e.mem.verified, Mode: Vouched}
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
	if c.cfg.Disabled || cm.WindowSeconds <= 0 {
		return
	}
	e := c.lookup(cm.Partition)
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

// insert puts a new entry into the map, or returns the one that is there.
func (c *Cache) insert(e *entry) (*entry, bool) {
	e.used.Store(c.clock(c.cfg.Now()))
	e.mu.Lock()
	c.charge(e)
	e.mu.Unlock()
	if v, loaded := c.entries.LoadOrStore(e.partition, e); loaded {
		e.mu.Lock()
		e.dead = true
		c.charge(e)
		e.mu.Unlock()
		return v.(*entry), false
	}
	c.count.Add(1)
	return e, true
}

// drop removes an entry and gives its bytes back.
func (c *Cache) drop(e *entry) {
	if e == nil {
		return
	}
	e.mu.Lock()
	c.dropLocked(e)
	e.mu.Unlock()
}

func (c *Cache) dropLocked(e *entry) {
	if e.dead {
		return
	}
	e.dead = true
	e.mem, e.late = nil, late{}
	c.charge(e)
	if c.entries.CompareAndDelete(e.partition, e) {
		c.count.Add(-1)
	}
}

// charge brings the budget in line with what an entry costs now. Under e.mu.
func (c *Cache) charge(e *entry) {
	var n int64
	if !e.dead {
		n = entryBytes + e.late.bytes()
		if e.mem != nil {
			n += e.mem.bytes()
		}
	}
	c.bytes.Add(n - e.charged)
	e.charged = n
}
