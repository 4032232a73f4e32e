package kafkawire

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// plan is what an assignor is given.
type plan struct {
	members []assignee
	topics  map[uuid.UUID]int32
}

func topicNumber(n int) uuid.UUID { return uuid.UUID{13: 7, 14: byte(n >> 8), 15: byte(n)} }

// drawPlan makes members with subscriptions, all of them the same or not, and
// with things they hold, wherever that came from.
func drawPlan(t *rapid.T, same bool) plan {
	p := plan{topics: map[uuid.UUID]int32{}}
	var all []uuid.UUID
	for i := range rapid.IntRange(0, 5).Draw(t, "topics") {
		all = append(all, topicNumber(i))
		p.topics[topicNumber(i)] = rapid.Int32Range(1, 12).Draw(t, "partitions")
	}
	free := []topicPartition{{topicNumber(9), 0}} // of a topic that is gone
	for topic, n := range p.topics {
		free = append(free, partitionsOf(topic, n+2)...) // some are gone
	}
	slices.SortFunc(free, topicPartition.compare)
	free = rapid.Permutation(free).Draw(t, "held")
	subscribed := map[uuid.UUID]bool{}
	for i := range rapid.IntRange(1, 7).Draw(t, "members") {
		m := assignee{id: fmt.Sprint("m", i), topics: all}
		if !same {
			m.topics = slices.DeleteFunc(slices.Clone(all), func(uuid.UUID) bool { return rapid.Bool().Draw(t, "unsubscribed") })
		}
		for _, id := range m.topics {
			subscribed[id] = true
		}
		n := rapid.IntRange(0, len(free)).Draw(t, "holds")
		m.holds, free = setOf(slices.Clone(free[:n])), free[n:]
		p.members = append(p.members, m)
	}
	for id := range p.topics {
		if !subscribed[id] {
			delete(p.topics, id)
		}
	}
	return p
}

// check holds a plan's outcome against what every assignor promises.
func (p plan) check(t *rapid.T, out []partitionSet) {
	if len(out) != len(p.members) {
		t.Fatalf("%d sets for %d members", len(out), len(p.members))
	}
	owner := map[topicPartition]string{}
	for i, s := range out {
		if !slices.IsSortedFunc(s, topicPartition.compare) {
			t.Fatalf("%v is not ordered", s)
		}
		for _, q := range s {
			if was := owner[q]; was != "" {
				t.Fatalf("%v goes to %s and %s", q, was, p.members[i].id)
			}
			if !slices.Contains(p.members[i].topics, q.topic) {
				t.Fatalf("%v goes to %s, which does not subscribe", q, p.members[i].id)
			}
			owner[q] = p.members[i].id
		}
	}
	for topic, n := range p.topics {
		for _, q := range partitionsOf(topic, n) {
			if owner[q] == "" {
				t.Fatalf("nobody gets %v", q)
			}
			delete(owner, q)
		}
	}
	if len(owner) > 0 {
		t.Fatalf("given away, and not there: %v", owner)
	}
}

// again is the plan when everybody holds what it was given.
func (p plan) again(out []partitionSet) plan {
	next := plan{members: slices.Clone(p.members), topics: p.topics}
	for i := range next.members {
		next.members[i].holds = out[i]
	}
	return next
}

func (p plan) same(t *rapid.T, f assignor, out []partitionSet) {
	again := f(p.again(out).members, p.topics)
	if !slices.EqualFunc(out, again, func(a, b partitionSet) bool { return slices.Equal(a, b) }) {
		t.Fatalf("%v, then %v, although nothing has changed", out, again)
	}
}

func spread(out []partitionSet) (least, most, all int) {
	least = len(out[0])
	for _, s := range out {
		least, most, all = min(least, len(s)), max(most, len(s)), all+len(s)
	}
	return least, most, all
}

func TestUniformIsEvenAndMovesLittle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, true)
		out := assignUniform(p.members, p.topics)
		p.check(t, out)
		least, most, all := spread(out)
		if most > least+1 {
			t.Fatalf("one has %d, another %d", least, most)
		}
		// Nobody can keep more than the quota, and only so many can keep one more.
		quota, more := all/len(out), all%len(out)
		kept, could := 0, 0
		for i, m := range p.members {
			held := m.holds.only(func(q topicPartition) bool { return q.number < p.topics[q.topic] })
			kept += len(held.and(out[i]))
			could += min(len(held), quota)
			if len(held) > quota && more > 0 {
				could++
				more--
			}
		}
		if kept != could {
			t.Fatalf("%d partitions stay where they are, %d could", kept, could)
		}
		p.same(t, assignUniform, out)
	})
}

func TestUniformWithDifferentSubscriptions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, false)
		out := assignUniform(p.members, p.topics)
		p.check(t, out)
		for i, s := range out {
			for _, q := range s {
				for j, m := range p.members {
					if slices.Contains(m.topics, q.topic) && len(s) > len(out[j])+1 {
						t.Fatalf("%v should go from %s, which has %d, to %s, which has %d", q, p.members[i].id, len(s), m.id, len(out[j]))
					}
				}
			}
		}
		p.same(t, assignUniform, out)
	})
}

func TestRangeSharesEachTopicOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, rapid.Bool().Draw(t, "same"))
		out := assignRange(p.members, p.topics)
		p.check(t, out)
		for topic := range p.topics {
			var ofTopic []partitionSet
			for i, m := range p.members {
				if slices.Contains(m.topics, topic) {
					ofTopic = append(ofTopic, out[i].only(func(q topicPartition) bool { return q.topic == topic }))
				}
			}
			if least, most, _ := spread(ofTopic); most > least+1 {
				t.Fatalf("of %v one has %d, another %d", topic, least, most)
			}
		}
		p.same(t, assignRange, out)
	})
}

// Who has 100,000 partitions of 10,000 topics has them looked through once, not once
// for each topic: everybody in the group waits.
func TestRangeOfManyTopicsIsQuick(t *testing.T) {
	t.Parallel()
	topics := map[uuid.UUID]int32{}
	for i := range 10_000 {
		topics[topicNumber(i)] = 10
	}
	members := []assignee{{id: "a", topics: slices.SortedFunc(maps.Keys(topics), compareIDs)}}
	members[0].holds = assignRange(members, topics)[0]
	began := time.Now()
	if again := assignRange(members, topics)[0]; len(again) != 100_000 {
		t.Errorf("it has %d partitions, want 100000", len(again))
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Topics of one width are cut at the same places, so that members can join them.
func TestRangeOfNewMembersFitsJoins(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 12).Draw(t, "partitions")
		a, b := topicNumber(1), topicNumber(2)
		topics := map[uuid.UUID]int32{a: n, b: n}
		members := make([]assignee, rapid.IntRange(1, 8).Draw(t, "members"))
		for i := range members {
			members[i] = assignee{id: fmt.Sprint(i), topics: []uuid.UUID{a, b}}
		}
		next := int32(0)
		for _, s := range assignRange(members, topics) {
			ofA := numbers(s.only(func(q topicPartition) bool { return q.topic == a }))
			ofB := numbers(s.only(func(q topicPartition) bool { return q.topic == b }))
			if !slices.Equal(ofA, ofB) {
				t.Fatalf("%v of one topic, %v of the other", ofA, ofB)
			}
			for _, number := range ofA {
				if number != next {
					t.Fatalf("%v does not go on at %d", ofA, next)
				}
				next++
			}
		}
	})
}
