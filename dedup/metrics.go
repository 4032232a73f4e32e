package dedup

import "sync/atomic"

type counters struct {
	answers                                               [Off + 1]atomic.Int64
	hydrations, catchUps, failures, gaps, contradictions  atomic.Int64
	evictions, overflows, suppressions, merges, thinnings atomic.Int64
}

// Stats is what the cache counts. Gauges are as of now, counters since New.
type Stats struct {
	Bytes, BytesMax int64
	Hashes          int64 // ids kept
	Entries         int64 // partitions with an entry
	Vouching        int64 // those that know their window
	Notes           int64 // partitions remembered without an entry
	Suppressed      int64 // those held back for want of room

	Answers        map[Mode]int64
	Hydrations     int64 // whole windows read
	CatchUps       int64 // readings of what other brokers wrote
	ReadFailures   int64
	Gaps           int64 // commits that left a gap
	Contradictions int64 // commits that made an entry start again
	Evictions      int64 // entries dropped for others' growth, or for a newcomer
	Overflows      int64 // entries that gave up because they could not grow
	Suppressions   int64
	Merges         int64 // filters built
	Thinnings      int64 // times filters were made less precise
}

// Stats counts. It looks at every entry, so it is for a scrape, not for a push.
func (c *Cache) Stats() Stats {
	s := Stats{
		Bytes: c.bytes.Load(), BytesMax: c.cfg.BytesMax, Entries: c.count.Load(),
		Answers:    make(map[Mode]int64, Off+1),
		Hydrations: c.stats.hydrations.Load(), CatchUps: c.stats.catchUps.Load(), ReadFailures: c.stats.failures.Load(),
		Gaps: c.stats.gaps.Load(), Contradictions: c.stats.contradictions.Load(),
		Evictions: c.stats.evictions.Load(), Overflows: c.stats.overflows.Load(), Suppressions: c.stats.suppressions.Load(),
		Merges: c.stats.merges.Load(), Thinnings: c.stats.thinnings.Load(),
	}
	for m := range c.stats.answers {
		s.Answers[Mode(m)] = c.stats.answers[m].Load()
	}
	c.entries.Range(func(_, v any) bool {
		e := v.(*entry)
		e.mu.Lock()
		if e.mem != nil {
			s.Hashes += e.mem.ids
			s.Vouching++
		}
		e.mu.Unlock()
		return true
	})
	held, all := c.notes.suppressed()
	s.Suppressed, s.Notes = int64(held), int64(all)
	return s
}
