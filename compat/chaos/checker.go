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
// nothing is out of order, all answers about an id agree, and no end of a log
// went back.
func Check(h *History, logs map[string][]Entry) []Violation {
	c := &checker{logs: logs}
	c.dense()
	ms := c.messages(h.Writes)
	c.writes(ms)
	c.names(ms)
	c.order(ms)
	c.register(ms)
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

// message is everything known of one id in one partition.
type message struct {
	partition, id string
	attempts      []Write // in the order in which they are recorded
	at            []int64 // where it is in the end
	// It came into the log between these: the first attempt's start, and the first
	// answer that says where it is.
	begun, done time.Duration
}

func (m *message) String() string { return m.partition + " " + m.id }

// never is after everything.
const never = time.Duration(1<<63 - 1)

// messages gathers what was asked and what is stored, by partition and id.
func (c *checker) messages(all []Write) []*message {
	byKey := make(map[[2]string]*message)
	var ms []*message
	get := func(partition, id string) *message {
		key := [2]string{partition, id}
		m := byKey[key]
		if m == nil {
			m = &message{partition: partition, id: id, begun: never, done: never}
			byKey[key] = m
			ms = append(ms, m)
		}
		return m
	}
	for _, w := range all {
		m := get(w.Partition, w.ID)
		m.attempts = append(m.attempts, w)
		m.begun = min(m.begun, w.Start)
		if w.Outcome == Stored || w.Outcome == Duplicate {
			m.done = min(m.done, w.End)
		}
	}
	for p, es := range c.logs {
		for _, e := range es {
			m := get(p, e.ID)
			m.at = append(m.at, e.Offset)
		}
	}
	slices.SortFunc(ms, func(a, b *message) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.id, b.id))
	})
	return ms
}

// writes: every id is stored as often, and where, as its answers say.
func (c *checker) writes(ms []*message) {
	for _, m := range ms {
		if len(m.at) > 1 {
			c.violation("twice: %s is stored at %v", m, m.at)
		}
		if m.attempts == nil {
			c.violation("phantom: %s at %v was never written", m, m.at)
			continue
		}
		c.oneMessage(m)
	}
}

func (c *checker) oneMessage(m *message) {
	stored, unknown, told := 0, false, false
	for i, w := range m.attempts {
		switch w.Outcome {
		case Stored, Duplicate:
			told = true
			if w.Outcome == Stored {
				stored++
				if i > 0 && m.attempts[i-1].Outcome == Duplicate && m.attempts[i-1].Client == w.Client && m.attempts[i-1].Start == w.Start {
					c.violation("last wins: %s is a duplicate of what comes behind it in its request", m)
				}
			}
			if len(m.at) == 0 {
				c.violation("lost: %s was %s at %d", m, w.Outcome, w.Offset)
				return
			}
			if !slices.Contains(m.at, w.Offset) {
				c.violation("elsewhere: %s was %s at %d, it is at %v", m, w.Outcome, w.Offset, m.at)
			}
		case Unknown:
			unknown = true
		case Failed:
		}
	}
	if stored > 1 {
		c.violation("stored twice: %d attempts of %s were told so", stored, m)
	}
	if !told && !unknown && len(m.at) > 0 {
		c.violation("undead: every attempt of %s failed, it is at %v", m, m.at)
	}
	if told && stored == 0 && !unknown {
		c.violation("no original: %s is only ever a duplicate", m)
	}
}

// names: all answers about a message give it one message id, which no other has.
func (c *checker) names(ms []*message) {
	owner := make(map[string]*message)
	for _, m := range ms {
		for _, w := range m.attempts {
			if w.Message == "" || w.Outcome != Stored && w.Outcome != Duplicate {
				continue
			}
			if o := owner[w.Message]; o != nil && o != m {
				c.violation("one name: %s and %s are both message %s", o, m, w.Message)
				break
			}
			owner[w.Message] = m
			if first := slices.IndexFunc(m.attempts, func(w Write) bool { return w.Message != "" }); m.attempts[first].Message != w.Message {
				c.violation("two names: %s is message %s and message %s", m, m.attempts[first].Message, w.Message)
				break
			}
		}
	}
}

// order: what a client knew to be stored before the first attempt of another
// message lies before that, even if the attempt was late or its answer lost, and
// a client's messages lie in the order it sent them.
func (c *checker) order(ms []*message) {
	byPartition := make(map[string][]*message)
	for _, m := range ms {
		if len(m.at) > 0 && m.attempts != nil {
			byPartition[m.partition] = append(byPartition[m.partition], m)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		dones := byPartition[p]
		starts := slices.Clone(dones)
		slices.SortFunc(starts, func(a, b *message) int { return cmp.Compare(a.begun, b.begun) })
		slices.SortFunc(dones, func(a, b *message) int { return cmp.Compare(a.done, b.done) })
		// Going through the starts in time, the highest offset known before.
		var before *message
		next := 0
		for _, m := range starts {
			for ; next < len(dones) && dones[next].done < m.begun; next++ {
				if before == nil || dones[next].at[0] > before.at[0] {
					before = dones[next]
				}
			}
			if before != nil && m.at[0] < before.at[0] {
				c.violation("reorder: %s at %d was begun at %s, after %s at %d was known at %s",
					m, m.at[0], m.begun, before.id, before.at[0], before.done)
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
