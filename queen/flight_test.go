package queen

import (
	"testing"

	"queenmq/store"
)

// A segment's memory is kept for readers, so it is no larger than what it holds.
func TestASegmentIsMadeAtItsSize(t *testing.T) {
	t.Parallel()
	q := &queue{byPart: map[string]*partition{}, ids: map[int64]*partition{}}
	q.desc.Store(&Queue{Options: QueueOptions{MaxMessageBytes: 1 << 20}})
	if err := q.grow([]store.PartitionRow{{ID: 1}}); err != nil {
		t.Fatal(err)
	}
	w := &writer{cfg: Config{}.withDefaults(), wake: make(chan struct{}, 1)}
	native := func(n, size int) *entry {
		e := &entry{}
		pu := &push{done: make(chan struct{})}
		pu.open.Store(int64(n))
		for range n {
			m := &Message{Value: make([]byte, size), Key: []byte("key")}
			it := newPushItem(m, nativeSize(m), &Pushed{}, pu)
			e.items = append(e.items, &it)
		}
		return e
	}
	kafka := func() *entry {
		b := kafkaBatch(t, 1)
		info, err := lookBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		return &entry{batch: b, info: info, pending: &Pending{done: make(chan struct{})}}
	}
	for what, entries := range map[string][]*entry{
		"one small message":        {native(1, 10)},
		"a hundred in one push":    {native(100, 256)},
		"a hundred pushes":         repeatEntry(100, func() *entry { return native(1, 10) }),
		"small batches of clients": repeatEntry(100, kafka),
		"both in turn":             {native(3, 10), kafka(), native(1, 10), native(1, 10), kafka(), native(2, 300)},
	} {
		p := newPartition(q, store.PartitionRow{ID: 1})
		for _, e := range entries {
			w.enqueue(p, e)
		}
		f := &flight{p: p, seg: p.pending[0]}
		if !w.prepare(t.Context(), f) {
			t.Fatalf("%s: nothing to store", what)
		}
		if n, room := len(f.data), cap(f.data); room > n+n/16+varintsGrow*(len(f.natives)+1) {
			t.Errorf("%s: %d bytes of memory for %d", what, room, n)
		}
		if n, room := len(f.data), f.seg.sizeOnce(); room < n {
			t.Errorf("%s: %d bytes expected, %d written: they were copied", what, room, n)
		}
		counted := *f.seg
		if counted.bytes = 0; counted.sizeOnce() != f.seg.sizeOnce() {
			t.Errorf("%s: %d bytes expected where nobody counted, else %d", what, counted.sizeOnce(), f.seg.sizeOnce())
		}
	}
}

func repeatEntry(n int, one func() *entry) (es []*entry) {
	for range n {
		es = append(es, one())
	}
	return es
}
