package queen

import (
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func woken(w *waiter) bool {
	select {
	case <-w.wake:
		return true
	default:
		return false
	}
}

func mustRegister(t *testing.T, ws *waiters, partitions ...int64) *waiter {
	t.Helper()
	w, err := ws.register(partitions)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// waiting lists the partitions somebody waits for.
func (ws *waiters) waiting() []int64 {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Sorted(maps.Keys(ws.heads))
}

func TestWakeReachesThoseWhoWaitForThePartition(t *testing.T) {
	t.Parallel()
	ws := newWaiters(100)
	a, b, c := mustRegister(t, ws, 1, 2), mustRegister(t, ws, 2, 3), mustRegister(t, ws, 2, 2)
	f := func(want ...bool) {
		t.Helper()
		if got := []bool{woken(a), woken(b), woken(c)}; !slices.Equal(got, want) {
			t.Errorf("woken %v, want %v", got, want)
		}
	}
	f(false, false, false)
	ws.wake(1)
	f(true, false, false)
	ws.wake(2)
	ws.wake(2) // one wake-up is kept, not two
	f(true, true, true)
	f(false, false, false)
	ws.wake(9)
	f(false, false, false)
	b.close()
	b.close()
	ws.wake(2)
	f(true, false, true)
	if got := ws.waiting(); !reflect.DeepEqual(got, []int64{1, 2}) {
		t.Errorf("waited for: %v", got)
	}
	a.close()
	c.close()
	if got := ws.waiting(); got != nil || ws.held != 0 {
		t.Errorf("after close: %v, %d held", got, ws.held)
	}
}

func TestWaitersAreBounded(t *testing.T) {
	t.Parallel()
	ws := newWaiters(5)
	a := mustRegister(t, ws, 1, 2, 3)
	if _, err := ws.register([]int64{4, 5, 6}); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("the sixth was not refused: %v", err)
	}
	mustRegister(t, ws, 4, 5)
	a.close()
	mustRegister(t, ws, 4, 5, 6)
	if got := ws.waiting(); !reflect.DeepEqual(got, []int64{4, 5, 6}) {
		t.Errorf("waited for: %v", got)
	}
}

// Readers register, look and wait for a number of writes to their partitions;
// a lost wake-up leaves one asleep, which synctest reports as a deadlock.
func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const partitions, perPartition = 300, 20
		ws := newWaiters(1 << 20)
		var written [partitions]atomic.Int64
		var readers, writers sync.WaitGroup
		for r := range 60 {
			mine := make([]int64, 0, partitions)
			for p := range int64(partitions) {
				if r == 0 || rand.IntN(r) == 0 {
					mine = append(mine, p)
				}
			}
			readers.Go(func() {
				for {
					// A new registration every time, as a fetch makes it.
					w, err := ws.register(mine)
					if err != nil {
						t.Error(err)
						return
					}
					done := true
					for range 3 {
						done = true
						for _, p := range mine {
							done = done && written[p].Load() == perPartition
						}
						if done {
							break
						}
						<-w.wake
					}
					w.close()
					if done {
						return
					}
				}
			})
		}
		for range 10 {
			writers.Go(func() {
				for range perPartition / 10 {
					for _, p := range rand.Perm(partitions) {
						written[p].Add(1)
						ws.wake(int64(p))
					}
				}
			})
		}
		writers.Wait()
		readers.Wait()
		if ws.held != 0 || len(ws.heads) != 0 {
			t.Errorf("%d registrations are left on %d partitions", ws.held, len(ws.heads))
		}
	})
}

func BenchmarkRegister(b *testing.B) {
	ws := newWaiters(1 << 20)
	partitions := make([]int64, 300)
	for i := range partitions {
		partitions[i] = int64(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		w, err := ws.register(partitions)
		if err != nil {
			b.Fatal(err)
		}
		w.close()
	}
}
