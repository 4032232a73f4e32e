package dedup

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The budget. BytesMax holds for everything kept; what grows beyond it makes
// room, first by making filters less precise, then by evicting what was not used
// for GuardFor, oldest first; when that is not enough, it gives up its own place.
// A newcomer may only fill FitPercent: the rest is for residents to grow into, so
// that an admission does not evict the set it just joined.

// room is what looking for room remembers.
type room struct {
	mu      sync.Mutex
	lastTry time.Time // guarded by mu: nothing was found then
	warned  atomic.Int64
}

// roomPause is how long a search for room that found nothing stands for all.
const roomPause = 250 * time.Millisecond

// evictExtra is the part of a limit that eviction frees beyond what is asked
// for, so that not every commit at the budget's edge looks at every entry.
const evictExtra = 64

// fits reports whether n bytes more stay under the newcomers' share.
func (c *Cache) fits(n int64) bool {
	return c.bytes.Load()+n <= c.cfg.BytesMax/100*int64(c.cfg.FitPercent)
}

// relieve brings the bytes back under the budget after e has grown.
func (c *Cache) relieve(e *entry) {
	if c.bytes.Load() <= c.cfg.BytesMax {
		return
	}
	now := c.cfg.Now()
	if c.makeRoom(c.cfg.BytesMax, c.cfg.GuardFor, now) {
		return
	}
	e.mu.Lock()
	if e.dead {
		e.mu.Unlock()
		return
	}
	c.stats.overflows.Add(1)
	held := e.mem == nil || e.mem.verified+1 >= c.cfg.KeepMin // else its next offset says that it is tiny
	if held {
		c.remember(e, now)
	}
	c.dropLocked(e)
	e.mu.Unlock()
	if held {
		c.suppress(e.partition, now)
	}
}

// remember notes what an entry costs, before it goes. Under e.mu.
func (c *Cache) remember(e *entry, now time.Time) {
	if e.mem == nil {
		return
	}
	m := e.mem
	c.notes.update(e.partition, c.clock(now), func(t *note) {
		t.bytes, t.ids, t.at, t.window, t.grown = m.bytes(), m.ids, c.clock(now), e.window, 0
	})
}

// suppress holds a partition back for the cooldown.
func (c *Cache) suppress(partition int64, now time.Time) {
	c.notes.update(partition, c.clock(now), func(t *note) {
		t.until, t.suppressed, t.asks = c.clock(now.Add(c.cfg.Cooldown)), true, 0
	})
	c.stats.suppressions.Add(1)
	last := c.room.warned.Load()
	if at := c.clock(now) + 1; last == 0 || at-last >= int64(c.cfg.WarnEvery) {
		if c.room.warned.CompareAndSwap(last, at) {
			held, _ := c.notes.suppressed()
			c.cfg.Log.Warn("dedup cache: not every partition's window fits, the rest is probed in full",
				"suppressed", held, "bytes", c.bytes.Load(), "bytes_max", c.cfg.BytesMax)
		}
	}
}

// makeRoom thins and evicts until at most limit bytes are charged, and reports
// whether it got there. Only entries idle for at least minIdle are evicted; none if it is 0.
func (c *Cache) makeRoom(limit int64, minIdle time.Duration, now time.Time) bool {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	if c.bytes.Load() <= limit {
		return true
	}
	if now.Sub(c.room.lastTry) < roomPause && !c.room.lastTry.IsZero() {
		return false
	}
	type idle struct {
		e    *entry
		used int64
	}
	var all []idle
	c.entries.Range(func(_, v any) bool {
		e := v.(*entry)
		all = append(all, idle{e, e.used.Load()})
		return true
	})
	slices.SortFunc(all, func(a, b idle) int { return cmp.Compare(a.used, b.used) })
	for vain := int64(1); vain <= c.cfg.VainIDsMax; { // what costs least first
		thinned := false
		for _, v := range all {
			if !c.thin(v.e, vain) {
				continue
			}
			thinned = true
			if c.bytes.Load() <= limit {
				return true
			}
		}
		if !thinned {
			vain *= 4
		}
	}
	if minIdle > 0 {
		latest := int64(now.Sub(c.start) - minIdle)
		for _, v := range all {
			if v.used > latest {
				break
			}
			c.evict(v.e, latest, now)
			if c.bytes.Load() <= limit-limit/evictExtra {
				break
			}
		}
		if c.bytes.Load() <= limit {
			return true
		}
	}
	c.room.lastTry = now
	return false
}

// evict drops an entry that was not used after latest.
func (c *Cache) evict(e *entry, latest int64, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || e.mem == nil || e.used.Load() > latest {
		return
	}
	c.remember(e, now)
	c.notes.update(e.partition, c.clock(now), func(t *note) {
		t.until, t.suppressed, t.asks = c.clock(now.Add(c.cfg.Cooldown)), true, 0
	})
	c.dropLocked(e)
	c.stats.evictions.Add(1)
}

// runSweeper expires what nobody asks about, and drops what has become too
// small to be worth its place.
func (c *Cache) runSweeper(ctx context.Context) {
	t := time.NewTicker(c.cfg.SweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			c.sweep()
		}
	}
}

func (c *Cache) sweep() {
	now := c.cfg.Now()
	c.entries.Range(func(_, v any) bool {
		e := v.(*entry)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.dead || e.mem == nil {
			return true
		}
		e.mem.expire(e.mem.bound(now, c.cfg.Slack))
		c.wantMerge(e) // also what nobody asks about takes few bytes once they count
		c.charge(e)
		unused := now.Sub(c.start) - time.Duration(e.used.Load())
		if unused >= c.cfg.GuardFor && e.mem.width() < c.cfg.KeepMin && !e.reading {
			c.tooSmall(e, now)
		}
		return true
	})
}

// tooSmall drops an entry whose window is cheaper to probe. Under e.mu.
func (c *Cache) tooSmall(e *entry, now time.Time) {
	if next := e.mem.verified + 1; next >= c.cfg.KeepMin { // else its next offset says it
		width := e.mem.width()
		c.notes.update(e.partition, c.clock(now), func(t *note) { *t = note{tiny: true, width: width, tinyAt: next} })
	}
	c.dropLocked(e)
}
