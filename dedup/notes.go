package dedup

import (
	"sync"
	"time"
)

// notes remembers a little about partitions without an entry: when to try them
// again and how much they would cost. Losing a note costs a measurement.
type notes struct {
	max int

	mu sync.Mutex
	m  map[int64]note // guarded by mu; at most max
}

// note is about one partition. Times are nanoseconds since the cache's start.
type note struct {
	until int64 // not to be read back before
	asks  int64 // questions since it is suppressed

	// The window when it was last known: bytes and ids, when, how long it was,
	// and how many ids were committed since.
	bytes, ids, grown int64
	at                int64
	window            int32

	suppressed bool // because it does not fit

	// The window had width offsets when the partition's next was tinyAt.
	tiny   bool
	width  int64
	tinyAt int64
}

// update changes a partition's note and returns it.
func (n *notes) update(partition int64, now int64, f func(*note)) note {
	n.mu.Lock()
	defer n.mu.Unlock()
	t, ok := n.m[partition]
	if !ok && len(n.m) >= n.max {
		n.prune(now)
	}
	f(&t)
	if n.m == nil {
		n.m = make(map[int64]note)
	}
	n.m[partition] = t
	return t
}

func (n *notes) get(partition int64) (note, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t, ok := n.m[partition]
	return t, ok
}

// grew counts ids that went to a partition without an entry, if it has a note.
func (n *notes) grew(partition, ids int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t, ok := n.m[partition]; ok {
		t.grown += ids
		n.m[partition] = t
	}
}

// prune makes room: notes that hold nobody back go first, then any.
func (n *notes) prune(now int64) {
	for p, t := range n.m {
		if t.until <= now {
			delete(n.m, p)
		}
	}
	for p := range n.m {
		if len(n.m) < n.max*3/4 {
			break
		}
		delete(n.m, p)
	}
}

func (n *notes) forget(partition int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.m, partition)
}

func (n *notes) forgetAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.m = nil
}

// suppressed counts partitions that are held back for want of room.
func (n *notes) suppressed() (held, all int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.m {
		if t.suppressed {
			held++
		}
	}
	return held, len(n.m)
}

// estimate is what the partition's window would cost now. What was known at
// the time leaves the window evenly; what came since is counted.
func (t note) estimate(now int64, window int32) int64 {
	if t.bytes == 0 || t.window == 0 {
		return 0
	}
	bytes := float64(t.bytes)
	perID := bytes / float64(max(1, t.ids))
	if window < t.window {
		bytes *= float64(window) / float64(t.window)
	}
	left := 1 - time.Duration(now-t.at).Seconds()/float64(window)
	return int64(bytes*max(0, left) + min(perID, 16)*float64(t.grown))
}
