package queen

import (
	"fmt"
	"testing"
	"time"

	"queenmq/store"
)

// BenchmarkTick is what the hotlist costs each lookTick beside so many selections, each
// with a parked pop and a lease.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, 20_000} {
		b.Run(fmt.Sprint("sets=", n), func(b *testing.B) {
			h := newHotlist()
			for i := range n {
				s, err := h.enter(popKey{queue: "q", group: fmt.Sprint("group-", i)}, store.Subscription{})
				if err != nil {
					b.Fatal(err)
				}
				s.lookedAt = time.Now().Add(time.Hour)
				h.keep(s, &partition{id: 1}, time.Hour)
				h.park(s, &popWaiter{wake: make(chan struct{}, 1)})
			}
			for b.Loop() {
				now := time.Now()
				for range lookTick / popTick {
					h.tick(now)
				}
				h.due(now, popLookAlone, 0)
			}
		})
	}
}
