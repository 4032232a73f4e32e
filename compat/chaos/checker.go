package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Violation is one rule broken, in words.
type Violation string

// Check judges a run: what clients were told, against the logs as they are at
// the end (all offsets from 0, by partition). No violations: nothing acknowledged
// is lost, nothing is stored twice, no offset is missing or has two values,
// nothing is out of order, and no end of a log went back.
func Check(h *History, logs map[string][]Entry) []Violation {
	c := &checker{logs: logs}
	c.dense()
	c.writes(h.Writes)
	c.order(h.Writes)
	c.ends(h.Ends, h.Writes)
	c.reads(h.Reads)
	return c.found
}

type checker struct {
	logs  map[string][]Entry
	found []Violation
}

func (c *checker) violation(format string, args ...any) {
	c.found = append(c.found, Violation(fmt.Sprintf(format, args...)))
}

// dense: offsets count from 0 without a hole or a repeat.
func (c *checker) dense() {
	for _, p := range slices.Sorted(maps.Keys(c.logs)) {
		for i, e := range c.logs[p] {
			if e.Offset != int64(i) {
				c.violation("gap: partition %s has offset %d where %d is due", p, e.Offset, i)
				break
			}
		}
	}
}

// place is where a message is.
type place struct {
	partition string
	offset    int64
}

// writes: every id is stored as often, and where, as its answers say.
func (c *checker) writes(all []Write) {
	at := make(map[string][]place)
	for _, p := range slices.Sorted(maps.Keys(c.logs)) {
		for _, e := range c.logs[p] {
			at[e.ID] = append(at[e.ID], place{p, e.Offset})
		}
	}
	attempts := make(map[string][]Write)
	for _, w := range all {
		attempts[w.ID] = append(attempts[w.ID], w)
	}
	for _, id := range slices.Sorted(maps.Keys(at)) {
		if len(at[id]) > 1 {
			c.violation("twice: %s is stored at %v", id, at[id])
		}
		if attempts[id] == nil {
			c.violation("phantom: %s at %v was never written", id, at[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(attempts)) {
		c.oneMessage(id, attempts[id], at[id])
	}
}

func (c *checker) oneMessage(id string, attempts []Write, at []place) {
	stored, possible := 0, false
	for _, w := range attempts {
		switch w.Outcome {
		case Stored, Duplicate:
			if w.Outcome == Stored {
				stored++
			}
			possible = true
			if len(at) == 0 {
				c.violation("lost: %s was %s at %s/%d", id, w.Outcome, w.Partition, w.Offset)
				return
			}
			if !slices.Contains(at, place{w.Partition, w.Offset}) {
				c.violation("elsewhere: %s was %s at %s/%d, it is at %v", id, w.Outcome, w.Partition, w.Offset, at)
			}
		case Unknown:
			possible = true
		case Failed:
		}
	}
	if stored > 1 {
		c.violation("stored twice: %d attempts of %s were told so", stored, id)
	}
	if !possible && len(at) > 0 {
		c.violation("undead: every attempt of %s failed, it is at %v", id, at)
	}
	if n := len(attempts); stored == 0 && n > 0 && !slices.ContainsFunc(attempts, func(w Write) bool { return w.Outcome == Unknown }) &&
		slices.ContainsFunc(attempts, func(w Write) bool { return w.Outcome == Duplicate }) {
		c.violation("no original: %s is only ever a duplicate", id)
	}
}

// order: what was acknowledged before another write began lies before it, and a
// client's messages lie in the order it sent them.
func (c *checker) order(all []Write) {
	byPartition := make(map[string][]Write)
	for _, w := range all {
		if w.Outcome == Stored {
			byPartition[w.Partition] = append(byPartition[w.Partition], w)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		ws := byPartition[p]
		starts := slices.Clone(ws)
		slices.SortFunc(starts, func(a, b Write) int { return cmp.Compare(a.Start, b.Start) })
		slices.SortFunc(ws, func(a, b Write) int { return cmp.Compare(a.End, b.End) })
		// Going through the starts in time, the highest offset acknowledged before.
		var before Write
		before.Offset = -1
		next := 0
		for _, w := range starts {
			for ; next < len(ws) && ws[next].End < w.Start; next++ {
				if ws[next].Offset > before.Offset {
					before = ws[next]
				}
			}
			if w.Offset < before.Offset {
				c.violation("reorder: %s at %s/%d began at %s, after %s at %d was acknowledged at %s",
					w.ID, p, w.Offset, w.Start, before.ID, before.Offset, before.End)
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(c.logs)) {
		last := make(map[string]Entry)
		for _, e := range c.logs[p] {
			if e.Seq < 0 {
				continue
			}
			if l, ok := last[e.Client]; ok && e.Seq <= l.Seq {
				c.violation("reorder: partition %s has message %d of %s at %d behind message %d at %d",
					p, e.Seq, e.Client, e.Offset, l.Seq, l.Offset)
			}
			last[e.Client] = e
		}
	}
}

// ends: a log's end never goes back, and covers what was acknowledged before the look.
func (c *checker) ends(ends []End, writes []Write) {
	byPartition := make(map[string][]End)
	for _, e := range ends {
		byPartition[e.Partition] = append(byPartition[e.Partition], e)
	}
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		// What must be covered from when on: acknowledged offsets and seen ends.
		type floor struct {
			since  time.Duration
			offset int64
			why    string
		}
		var floors []floor
		for _, w := range writes {
			if w.Partition == p && (w.Outcome == Stored || w.Outcome == Duplicate) {
				floors = append(floors, floor{w.End, w.Offset + 1, w.ID + " was acknowledged"})
			}
		}
		for _, e := range byPartition[p] {
			floors = append(floors, floor{e.End, e.Offset, e.Client + " saw the end"})
		}
		slices.SortFunc(floors, func(a, b floor) int { return cmp.Compare(a.since, b.since) })
		looks := byPartition[p]
		slices.SortFunc(looks, func(a, b End) int { return cmp.Compare(a.Start, b.Start) })
		var must floor
		next := 0
		for _, e := range looks {
			for ; next < len(floors) && floors[next].since < e.Start; next++ {
				if floors[next].offset > must.offset {
					must = floors[next]
				}
			}
			if e.Offset < must.offset {
				c.violation("end went back: %s saw %s end at %d at %s, but %s at %d by %s",
					e.Client, p, e.Offset, e.Start, must.why, must.offset, must.since)
			}
		}
		if n := int64(len(c.logs[p])); len(looks) > 0 && slices.MaxFunc(looks, func(a, b End) int { return cmp.Compare(a.Offset, b.Offset) }).Offset > n {
			c.violation("end beyond the log: partition %s has %d messages, more were promised", p, n)
		}
	}
}

// reads: a reader was given a stretch of the log as it is: nothing appeared
// behind it, nothing it saw is gone or has changed.
func (c *checker) reads(reads map[string]map[string][]Entry) {
	for _, reader := range slices.Sorted(maps.Keys(reads)) {
		for _, p := range slices.Sorted(maps.Keys(reads[reader])) {
			log := c.logs[p]
			due := int64(-1)
			for _, e := range reads[reader][p] {
				if due >= 0 && e.Offset != due {
					c.violation("skipped: reader %s was given %s/%d where %d was due", reader, p, e.Offset, due)
					break
				}
				if e.Offset >= int64(len(log)) || log[e.Offset] != e {
					c.violation("changed: reader %s was given %s at %s/%d, which is not there at the end", reader, e.ID, p, e.Offset)
					break
				}
				due = e.Offset + 1
			}
		}
	}
}
