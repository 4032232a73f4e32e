package dedup

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

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
