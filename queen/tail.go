package queen

import (
	"sort"
	"sync"
)

// tail keeps the newest committed segments, so that a reader who is caught up
// needs no SQL. Of each partition it holds an unbroken run of segments that
// ends with the newest one it was given. It may say "here it is" or "wait",
// nothing else: whatever lies outside the run is asked from the ledger. A run
// belongs to the incarnation of the database that committed or returned its
// segments, and is nothing to another one, which may have lost them.
//
// Over all partitions it keeps at most bytesMax bytes, and drops the oldest
// addition first. It is safe for concurrent use. A partition's run is guarded
// by its shard; the age order by order.mu, taken last and held for a few
// pointers.
type tail struct {
	bytesMax int64
	shards   [tailShards]tailShard
	order    tailOrder
	spill    *spill // takes what is evicted
}

const tailShards = 32 // a power of two

type tailShard struct {
	mu   sync.RWMutex
	runs map[int64][]*tailNode // by partition; never an empty run
}

// tailNode is a kept segment. All but the links is immutable.
type tailNode struct {
	partition   int64
	incarnation int32 // the same in all of a run
	segment     *segment
	age         uint64 // ascending in the order of addition
	// Guarded by order.mu. A node that was evicted is out of the list at once
	// and out of its run a moment later.
	listed     bool
	prev, next *tailNode
}

// tailOrder is the list of all nodes, oldest first.
type tailOrder struct {
	mu             sync.Mutex
	oldest, newest *tailNode
	bytes          int64
	age            uint64
}

func newTail(bytesMax int64) *tail {
	t := &tail{bytesMax: bytesMax, spill: newSpill("", 0, nil)}
	for i := range t.shards {
		t.shards[i].runs = make(map[int64][]*tailNode)
	}
	return t
}

func (t *tail) shard(partition int64) *tailShard { return &t.shards[uint64(partition)%tailShards] }

// add keeps a segment that is committed in an incarnation. One that does not follow the run replaces it.
// One that the run already reaches past is ignored: to end earlier than what is
// known would make a reader wait for what is there. (Of a partition that was
// evicted nothing is known. So callers add in ascending order, and the poll
// that looks for other brokers' writes wakes whoever waits below the log's end.)
func (t *tail) add(partition int64, incarnation int32, s *segment) {
	sh := t.shard(partition)
	sh.mu.Lock()
	run := sh.runs[partition]
	var dropped []*tailNode
	if len(run) > 0 {
		last := run[len(run)-1]
		if incarnation < last.incarnation || incarnation == last.incarnation && s.end <= last.segment.end {
			sh.mu.Unlock()
			return
		}
		if incarnation > last.incarnation || s.base != last.segment.end+1 {
			run, dropped = nil, run
		}
	}
	node := &tailNode{partition: partition, incarnation: incarnation, segment: s}
	evicted := t.order.add(node, dropped, t.bytesMax)
	sh.runs[partition] = append(run, node)
	sh.mu.Unlock()
	for _, n := range evicted {
		t.evict(n)
	}
}

// evict takes a node, and what is older in its run, out of the run. The older
// ones have left the list before it, so nothing is lost that still counts.
func (t *tail) evict(victim *tailNode) {
	sh := t.shard(victim.partition)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	run := sh.runs[victim.partition]
	n := 0
	for n < len(run) && run[n].age <= victim.age {
		t.spill.offer(run[n].partition, run[n].incarnation, run[n].segment)
		run[n] = nil
		n++
	}
	if n == len(run) {
		delete(sh.runs, victim.partition)
	} else {
		sh.runs[victim.partition] = run[n:]
	}
}

// segments returns the segments from the one holding offset on, until maxBytes are
// reached, and at least one. end is the next offset known. ok false means that the
// ledger must be asked. At the end there is nothing but to wait.
func (t *tail) segments(partition int64, incarnation int32, offset int64, maxBytes int) (segments []*segment, end int64, ok bool) {
	sh := t.shard(partition)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	run, end, ok := sh.from(partition, incarnation, offset)
	n := 0
	for _, node := range run {
		if n += len(node.segment.data); n > maxBytes && len(segments) > 0 {
			break
		}
		segments = append(segments, node.segment)
	}
	return segments, end, ok
}

// from is the part of a run that holds offset and what follows. The caller holds mu.
func (sh *tailShard) from(partition int64, incarnation int32, offset int64) (run []*tailNode, end int64, ok bool) {
	run = sh.runs[partition]
	if len(run) == 0 || run[0].incarnation != incarnation {
		return nil, 0, false
	}
	end = run[len(run)-1].segment.end + 1
	if offset < run[0].segment.base || offset > end {
		return nil, end, false
	}
	i := sort.Search(len(run), func(i int) bool { return run[i].segment.end >= offset })
	return run[i:], end, true
}

// forget drops a partition, which was deleted or can no longer be trusted.
func (t *tail) forget(partition int64) {
	sh := t.shard(partition)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t.order.remove(sh.runs[partition])
	delete(sh.runs, partition)
	t.spill.forget(partition)
}

// forgetBelow drops what a log that begins at start has lost, whole segments: a
// reader of what lies between start and the first one left asks the ledger.
func (t *tail) forgetBelow(partition, start int64) {
	sh := t.shard(partition)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	run := sh.runs[partition]
	n := sort.Search(len(run), func(i int) bool { return run[i].segment.base >= start })
	t.order.remove(run[:n])
	clear(run[:n])
	if n == len(run) {
		delete(sh.runs, partition)
	} else {
		sh.runs[partition] = run[n:]
	}
	t.spill.forgetBelow(partition, start)
}

// forgetAll drops everything: the database has another incarnation.
func (t *tail) forgetAll() {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for _, run := range sh.runs {
			t.order.remove(run)
		}
		clear(sh.runs)
		t.spill.forgetAll()
		sh.mu.Unlock()
	}
}

// tailNodeOverhead is what a node costs beside its segment.
const tailNodeOverhead = 64

func (n *tailNode) bytes() int64 { return int64(n.segment.size() + tailNodeOverhead) }

// add lists a node as the newest, in place of dropped, and takes out the oldest
// ones until bytesMax is kept.
func (o *tailOrder) add(node *tailNode, dropped []*tailNode, bytesMax int64) (evicted []*tailNode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range dropped {
		o.unlist(n)
	}
	o.age++
	node.age, node.listed, node.prev = o.age, true, o.newest
	if o.newest != nil {
		o.newest.next = node
	} else {
		o.oldest = node
	}
	o.newest = node
	o.bytes += node.bytes()
	for o.bytes > bytesMax {
		n := o.oldest
		o.unlist(n)
		evicted = append(evicted, n)
	}
	return evicted
}

func (o *tailOrder) remove(nodes []*tailNode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range nodes {
		o.unlist(n)
	}
}

// unlist is add undone; the caller holds mu.
func (o *tailOrder) unlist(n *tailNode) {
	if !n.listed {
		return
	}
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		o.oldest = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		o.newest = n.prev
	}
	n.listed, n.prev, n.next = false, nil, nil
	o.bytes -= n.bytes()
}
