package queen

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestNobodyWaitsLongForATallyTwice: the first is waited for, then an older one is given
// where a new one takes long, and what takes long is not made all the time.
func TestNobodyWaitsLongForATallyTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := &Engine{ctx: ctx, tallies: make(chan func(context.Context), 2)}
		e.wg.Go(func() { e.tally(ctx) })
		defer e.wg.Wait()
		defer cancel()
		var c tally[int]
		takes, made, fails := 10*time.Second, 0, error(nil)
		makeOne := func(context.Context) (int, error) {
			<-time.After(takes)
			made++
			return made, fails
		}
		began := time.Now()
		f := func(what string, want int, at, took time.Duration) {
			t.Helper()
			came := time.Now()
			got, err := c.get(t.Context(), e, makeOne)
			if err != nil || got.result != want || got.at.Sub(began) != at || time.Since(came) != took {
				t.Errorf("%s: %+v, %v after %v; want %d of %v after %v", what, got, err, time.Since(came), want, at, took)
			}
		}
		f("the first", 1, 0, 10*time.Second)
		f("right after", 1, 0, 0)
		<-time.After(100 * time.Second)
		f("another one may be made", 1, 0, tallyWait) // at 110 s
		<-time.After(10 * time.Second)
		f("it was made meanwhile", 2, 110*time.Second, 0)

		// What is made quickly is new for each who asks.
		takes = time.Second / 10
		<-time.After(100 * time.Second)
		at := time.Since(began)
		f("quick", 3, at, takes)
		f("quick again", 4, at+takes, takes)

		// Those who come while one is made share the next.
		results := make(chan int)
		go func() {
			got, _ := c.get(t.Context(), e, makeOne)
			results <- got.result
		}()
		synctest.Wait()
		<-time.After(takes / 2)
		for range 3 {
			go func() {
				got, _ := c.get(t.Context(), e, makeOne)
				results <- got.result
			}()
		}
		for i := range 4 {
			if got := <-results; got != 5+min(i, 1) {
				t.Errorf("number %d was given result %d", i, got)
			}
		}

		fails = errors.New("no")
		if _, err := c.get(t.Context(), e, makeOne); !errors.Is(err, fails) {
			t.Errorf("a failure: %v", err)
		}
		fails = nil
		f("after the failure", 8, time.Since(began), takes)
		gone, leave := context.WithTimeout(t.Context(), takes/2)
		defer leave()
		if _, err := c.get(gone, e, makeOne); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who leaves: %v", err)
		}
	})
}
