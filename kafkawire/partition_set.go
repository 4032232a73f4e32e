package kafkawire

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// topicPartition names a partition by the id of its topic.
type topicPartition struct {
	topic  uuid.UUID
	number int32
}

func (p topicPartition) compare(o topicPartition) int {
	if c := bytes.Compare(p.topic[:], o.topic[:]); c != 0 {
		return c
	}
	return cmp.Compare(p.number, o.number)
}

// partitionSet is a set of partitions, ordered and never changed once made.
type partitionSet []topicPartition

// setOf makes a set of partitions in any order, some of them perhaps twice. It
// takes over the slice.
func setOf(ps []topicPartition) partitionSet {
	slices.SortFunc(ps, topicPartition.compare)
	return slices.Compact(ps)
}

func (s partitionSet) has(p topicPartition) bool {
	_, ok := slices.BinarySearchFunc(s, p, topicPartition.compare)
	return ok
}

// and is what is in both sets.
func (s partitionSet) and(o partitionSet) partitionSet {
	return s.only(func(p topicPartition) bool { return o.has(p) })
}

// minus is what is in s alone.
func (s partitionSet) minus(o partitionSet) partitionSet {
	return s.only(func(p topicPartition) bool { return !o.has(p) })
}

// or is what is in either set.
func (s partitionSet) or(o partitionSet) partitionSet {
	switch {
	case len(o) == 0:
		return s
	case len(s) == 0:
		return o
	}
	return setOf(slices.Concat(s, o))
}

// only is the part of s that f holds for; s itself where that is all of it.
func (s partitionSet) only(f func(topicPartition) bool) partitionSet {
	at := slices.IndexFunc(s, func(p topicPartition) bool { return !f(p) })
	if at < 0 {
		return s
	}
	out := slices.Clone(s[:at])
	for _, p := range s[at+1:] {
		if f(p) {
			out = append(out, p)
		}
	}
	return out
}

// of is the part of s that is of a topic with n partitions.
func (s partitionSet) of(topic uuid.UUID, n int32) partitionSet {
	from, _ := slices.BinarySearchFunc(s, topicPartition{topic, 0}, topicPartition.compare)
	to, _ := slices.BinarySearchFunc(s, topicPartition{topic, n}, topicPartition.compare)
	return s[from:to]
}

// meets says whether the sets have a partition in common.
func (s partitionSet) meets(o partitionSet) bool {
	return slices.ContainsFunc(s, o.has)
}

// within says whether all of s is in o.
func (s partitionSet) within(o partitionSet) bool {
	return !slices.ContainsFunc(s, func(p topicPartition) bool { return !o.has(p) })
}
