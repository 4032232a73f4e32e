package kafkawire

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// assignee is a member as an assignor sees it.
type assignee struct {
	id     string
	topics []uuid.UUID  // subscribed to, ordered, each of them existing
	holds  partitionSet // what it was to have so far, wherever still subscribed to
}

// assignor says who is to have which partition. It is pure: members are ordered
// by id, topics gives the number of partitions of every topic subscribed to, and
// the answer is in the order of the members. Each partition of a topic that
// somebody subscribes to goes to exactly one of those who do.
type assignor func(members []assignee, topics map[uuid.UUID]int32) []partitionSet

// assignors are the server-side assignors, the default first.
var assignors = []struct {
	name string
	f    assignor
}{
	{"uniform", assignUniform},
	{"range", assignRange},
}

// assignorNamed is the assignor of that name, nil if there is none.
func assignorNamed(name string) assignor {
	for _, a := range assignors {
		if a.name == name {
			return a.f
		}
	}
	return nil
}

// assignRange shares out each topic by itself: everybody who subscribes to it
// gets the same number of its partitions, give or take one, and keeps the lowest
// of those it had. Members with one subscription and no past get the same
// numbers of topics of the same width, which is what joins need.
func assignRange(members []assignee, topics map[uuid.UUID]int32) []partitionSet {
	out := make([][]topicPartition, len(members))
	for topic, at := range subscribers(members) {
		held := make([]partitionSet, len(at))
		for i, m := range at {
			held[i] = members[m].holds.of(topic, topics[topic])
		}
		for i, s := range shareOut(held, partitionsOf(topic, topics[topic]), false) {
			out[at[i]] = append(out[at[i]], s...)
		}
	}
	return sets(out)
}

// assignUniform gives everybody the same number of partitions over all topics,
// give or take one, as far as subscriptions allow, and moves as few as it can.
func assignUniform(members []assignee, topics map[uuid.UUID]int32) []partitionSet {
	if len(members) == 0 {
		return nil
	}
	first := members[0].topics
	if slices.ContainsFunc(members, func(m assignee) bool { return !slices.Equal(m.topics, first) }) {
		return assignMixed(members, topics)
	}
	var all partitionSet
	for _, t := range first {
		all = append(all, partitionsOf(t, topics[t])...)
	}
	held := make([]partitionSet, len(members))
	for i, m := range members {
		held[i] = m.holds.and(all)
	}
	out := shareOut(held, all, true)
	for i := range out {
		slices.SortFunc(out[i], topicPartition.compare)
	}
	return sets(out)
}

// shareOut shares all out evenly among those who hold some of it, nobody more than
// one more than another. Whoever holds more than that gives up its last ones.
// The rest is dealt one by one, which mixes topics, or in runs.
func shareOut(held []partitionSet, all partitionSet, deal bool) [][]topicPartition {
	least, more := len(all)/len(held), len(all)%len(held)
	out := make([][]topicPartition, len(held))
	quota := make([]int, len(held))
	kept := make(map[topicPartition]bool, len(all))
	for i, h := range held {
		quota[i] = least
		if len(h) > least && more > 0 {
			quota[i]++
			more--
		}
		for _, p := range h {
			if len(out[i]) < quota[i] && !kept[p] {
				kept[p] = true
				out[i] = append(out[i], p)
			}
		}
	}
	for i := range held {
		if quota[i] == least && more > 0 {
			quota[i]++
			more--
		}
	}
	at := 0
	for _, p := range all {
		if kept[p] {
			continue
		}
		for len(out[at]) >= quota[at] {
			at = (at + 1) % len(out)
		}
		out[at] = append(out[at], p)
		if deal {
			at = (at + 1) % len(out)
		}
	}
	return out
}

// assignMixed is assignUniform where subscriptions differ: what is held stays,
// what is free goes to whoever has least, and then partitions move, topic by
// topic, from who has most to who has least for as long as that evens them out.
func assignMixed(members []assignee, topics map[uuid.UUID]int32) []partitionSet {
	of := subscribers(members)
	order := make([]uuid.UUID, 0, len(of))
	for t := range of {
		order = append(order, t)
	}
	// Topics with few subscribers leave no choice; they come first.
	slices.SortFunc(order, func(a, b uuid.UUID) int {
		return cmp.Or(cmp.Compare(len(of[a]), len(of[b])), topicPartition{topic: a}.compare(topicPartition{topic: b}))
	})
	load := make([]int, len(members))
	owner := map[topicPartition]int{}
	for i, m := range members {
		for _, p := range m.holds {
			_, taken := owner[p]
			_, subscribed := slices.BinarySearchFunc(m.topics, p.topic, compareIDs)
			if !taken && subscribed && p.number < topics[p.topic] {
				owner[p] = i
				load[i]++
			}
		}
	}
	lightest := func(at []int) int {
		return slices.MinFunc(at, func(a, b int) int { return cmp.Compare(load[a], load[b]) })
	}
	for _, t := range order {
		for _, p := range partitionsOf(t, topics[t]) {
			if _, ok := owner[p]; !ok {
				m := lightest(of[t])
				owner[p] = m
				load[m]++
			}
		}
	}
	for moved := true; moved; {
		moved = false
		for _, t := range order {
			ps := partitionsOf(t, topics[t])
			slices.SortStableFunc(ps, func(a, b topicPartition) int { return cmp.Compare(load[owner[b]], load[owner[a]]) })
			for _, p := range ps {
				from, to := owner[p], lightest(of[t])
				if load[from] > load[to]+1 { // each move makes the sum of squares smaller: this ends
					owner[p], moved = to, true
					load[from]--
					load[to]++
				}
			}
		}
	}
	out := make([][]topicPartition, len(members))
	for p, m := range owner {
		out[m] = append(out[m], p)
	}
	return sets(out)
}

// subscribers are the places of those who subscribe, by topic.
func subscribers(members []assignee) map[uuid.UUID][]int {
	of := map[uuid.UUID][]int{}
	for i, m := range members {
		for _, t := range m.topics {
			of[t] = append(of[t], i)
		}
	}
	return of
}

// partitionsOf lists the partitions of a topic.
func partitionsOf(topic uuid.UUID, n int32) partitionSet {
	ps := make(partitionSet, n)
	for i := range ps {
		ps[i] = topicPartition{topic, int32(i)}
	}
	return ps
}

func sets(ps [][]topicPartition) []partitionSet {
	out := make([]partitionSet, len(ps))
	for i, p := range ps {
		out[i] = setOf(p)
	}
	return out
}

func compareIDs(a, b uuid.UUID) int {
	return topicPartition{topic: a}.compare(topicPartition{topic: b})
}
