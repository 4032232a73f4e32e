package queen

import (
	"fmt"
	"testing"
	"time"
)

// TestNativeFlushAllocatesNothingPerMessage: what a flush makes of native messages
// costs its share of a few slices, and no allocation of its own; the bytes that the
// tail will hold are not much more than the segment's.
func TestNativeFlushAllocatesNothingPerMessage(t *testing.T) {
	flightOf := func(n int) *flight {
		en := &entry{}
		items := make([]pushItem, n)
		for i := range items {
			items[i] = newPushItem(&Message{ID: fmt.Appendf(nil, "order-%08d", i), Value: make([]byte, 256)}, 0, nil, nil)
			items[i].size = nativeSize(items[i].msg)
			en.items = append(en.items, &items[i])
		}
		return &flight{base: NewIDBase(time.Now()), seg: &openSegment{entries: []*entry{en}}}
	}
	allocs := func(n int) float64 {
		f := flightOf(n)
		return testing.AllocsPerRun(10, func() {
			if err := f.encode(3600, 1<<20, 1<<20, nothing); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocs(100), allocs(1000); few > 20 || many-few > 10 {
		t.Errorf("%v allocations for 100 messages, %v for 1,000", few, many)
	}
	f := flightOf(100)
	if err := f.encode(3600, 1<<20, 1<<20, nothing); err != nil {
		t.Fatal(err)
	}
	if n, c := len(f.data), cap(f.data); n < 3200 || c > n+n/8+512 {
		t.Errorf("a segment of %d bytes keeps %d", n, c)
	}
}
