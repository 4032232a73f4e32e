package dedup

import "time"

// admit makes an entry for a partition that has none, or returns nil and
// unkept says why. A brand-new partition is known completely: it is empty. Any
// other is read back in the background, if it is worth it and fits.
func (c *Cache) admit(q Question) *entry {
	e := &entry{partition: q.Partition, epoch: q.Epoch, window: q.WindowSeconds, seen: q.Next - 1}
	if q.Next <= 0 {
		e.mem = born(-1, windowOf(q))
		e, fresh := c.insert(e)
		if fresh {
			c.relieve(e)
		}
		return c.same(e, q)
	}
	now := c.cfg.Now()
	if q.Next < c.cfg.KeepMin {
		return nil
	}
	if t, ok := c.notes.get(q.Partition); ok {
		if t.isTiny(q.Next, c.cfg.KeepMin) || t.until > c.clock(now) {
			return nil
		}
		est := t.estimate(c.clock(now), q.WindowSeconds)
		if !c.fits(est) && !c.roomFor(est, t, now) {
			c.suppress(q.Partition, now)
			return nil
		}
	} else if !c.fits(0) && !c.roomFor(0, t, now) {
		c.suppress(q.Partition, now)
		return nil
	}
	e.reading = true
	e, fresh := c.insert(e)
	if !fresh {
		return c.same(e, q)
	}
	select {
	case c.reads <- e:
		c.notes.forget(q.Partition) // what was noted is measured anew
	default:
		c.drop(e) // asked about again soon
		return nil
	}
	return e
}

// same returns e if the question is about its window and epoch.
func (c *Cache) same(e *entry, q Question) *entry {
	if e.epoch != q.Epoch || e.window != q.WindowSeconds {
		return nil
	}
	return e
}

// roomFor makes room for a newcomer. It may always make filters less precise.
// It may evict what was idle for a whole cooldown only if it was itself asked
// about often during its own: among partitions used equally nobody replaces anybody.
func (c *Cache) roomFor(n int64, t note, now time.Time) bool {
	idle := time.Duration(0)
	if t.asks >= c.cfg.AsksToEvict {
		idle = max(c.cfg.Cooldown, c.cfg.GuardFor)
	}
	return c.makeRoom(c.cfg.BytesMax/100*int64(c.cfg.FitPercent)-n, idle, now)
}

// unkept answers for a partition without an entry, and counts the question.
func (c *Cache) unkept(q Question) Answer {
	a := Answer{Verified: -1, Mode: Cold}
	if q.Next < c.cfg.KeepMin {
		a.Mode = Tiny
		return a
	}
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	t, ok := c.notes.m[q.Partition]
	if !ok {
		return a
	}
	switch {
	case t.isTiny(q.Next, c.cfg.KeepMin):
		a.Mode = Tiny
	case t.suppressed:
		a.Mode = Suppressed
		t.asks++
		c.notes.m[q.Partition] = t
	}
	return a
}

// isTiny reports whether the window has surely fewer offsets than keepMin.
func (t note) isTiny(next, keepMin int64) bool {
	return t.tiny && next-t.tinyAt+t.width < keepMin
}

func windowOf(q Question) time.Duration { return time.Duration(q.WindowSeconds) * time.Second }
