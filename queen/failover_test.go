package queen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queenmq/store"
	"queenmq/store/storetest"
)

// TestFailoverLosesNothingThatWasAcknowledged promotes a synchronous standby while two
// brokers write: pushes under way are repeated by whoever made them, as clients do, and
// each id is stored once, where its answer said.
func TestFailoverLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	r := s.Standby(t, "standby")
	cfg := s.Config(t, func(c *store.Config) {
		c.URL = fmt.Sprintf("host=%s,%s user=postgres dbname=postgres", s.Dir, r.Dir)
	})
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()"} {
		s.Run(t, []byte(sql), "psql", "-q", "-v", "ON_ERROR_STOP=1")
	}
	b := openTwo(t, cfg)
	defer b.stop(t)
	epoch := b[0].db.Incarnation().Epoch

	var mu sync.Mutex
	answers := map[string]Pushed{}
	var pushed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				m := Message{Queue: "q", Partition: fmt.Sprint(w % 2), ID: fmt.Appendf(nil, "%d-%d", w, n), Value: []byte(`1`)}
				for i := w; ; i++ {
					p := b[i%2].Push(t.Context(), []Message{m})[0]
					if p.Err == nil {
						mu.Lock()
						answers[m.Partition+"/"+string(m.ID)] = p
						mu.Unlock()
						break
					}
					if !errors.Is(p.Err, ErrOutcomeUnknown) && !errors.Is(p.Err, ErrUnavailable) {
						t.Error(p.Err)
						return
					}
				}
				pushed.Add(1)
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		deadline := time.After(2 * time.Minute)
		for at := pushed.Load(); pushed.Load() < at+n; {
			select {
			case <-deadline:
				t.Fatal("nothing is pushed any more")
			case <-time.After(time.Millisecond):
			}
		}
	}
	more(100)
	s.Stop(t, "immediate")
	r.Promote(t)
	more(100)
	stop()
	wg.Wait()
	stored := map[string]StoredMessage{}
	for _, p := range []string{"0", "1"} {
		for _, m := range fetchAll(t, b[1].Engine, "q", p) {
			id := p + "/" + string(m.TransactionID)
			if _, twice := stored[id]; twice {
				t.Errorf("%s is stored twice", id)
			}
			stored[id] = m
		}
	}
	for id, a := range answers {
		if m, ok := stored[id]; !ok || m.Offset != a.Offset || m.ID != a.MessageID {
			t.Errorf("%s was answered %v at %d; stored: %v, at %d", id, a.Status, a.Offset, ok, m.Offset)
		}
	}
	if len(stored) != len(answers) {
		t.Errorf("%d ids are stored, %d were answered", len(stored), len(answers))
	}
	for i := range b {
		if inc := b[i].db.Incarnation(); inc.Timeline != 2 || inc.Epoch <= epoch {
			t.Errorf("broker %d is in %+v", i, inc)
		}
	}
}
