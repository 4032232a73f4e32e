package compat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// cost is what a load took.
type cost struct {
	messages   int64
	turns      int // requests
	took       time.Duration
	broker, db time.Duration
	p50, p99   time.Duration
}

func (c cost) rate() float64 { return float64(c.messages) / c.took.Seconds() }

// each is microseconds of processor time per message.
func (c cost) each() float64 {
	return float64((c.broker + c.db).Microseconds()) / float64(max(1, c.messages))
}

// turn makes one request and answers how many messages it was about.
type turn func(ctx context.Context, r *rand.Rand) (messages int, err error)

// load has clients make requests for a time, each as soon as its last was
// answered, or with pace over zero that often a second all together.
func (s *site) load(clients int, span time.Duration, pace float64, client func(i int) (turn, error)) cost {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	turns := make([]turn, clients)
	for i := range turns {
		var err error
		if turns[i], err = client(i); err != nil {
			s.t.Fatal(err)
		}
	}
	var c cost
	var messages atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	before := usedBy(s.t, s.p.PID(), s.dir)
	end := before.at.Add(span)
	for i, next := range turns {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			var mine []time.Duration
			due := before.at
			if pace > 0 {
				due = due.Add(time.Duration(float64(i) / pace * float64(time.Second)))
			}
			for first := true; first || time.Now().Before(end); first = false {
				if pace > 0 {
					pause(ctx, time.Until(due))
				} else {
					due = time.Now()
				}
				n, err := next(ctx, r)
				if err != nil {
					s.t.Errorf("client %d: %v", i, err)
					return
				}
				messages.Add(int64(n))
				mine = append(mine, time.Since(due)) // from when it was due
				if pace > 0 {
					due = due.Add(time.Duration(float64(clients) / pace * float64(time.Second)))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	wg.Wait()
	after := usedBy(s.t, s.p.PID(), s.dir)
	if s.t.Failed() {
		s.t.FailNow()
	}
	slices.Sort(took)
	c.messages, c.turns, c.took = messages.Load(), len(took), after.at.Sub(before.at)
	c.broker, c.db = after.broker-before.broker, after.database-before.database
	c.p50, c.p99 = took[len(took)/2], took[len(took)*99/100]
	return c
}

// pause waits for d or ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// rest measures what is used while nothing is asked, in hundredths of a core.
func (s *site) rest(step, what string, span time.Duration) {
	s.t.Helper()
	before := usedBy(s.t, s.p.PID(), s.dir)
	pause(s.t.Context(), span)
	after := usedBy(s.t, s.p.PID(), s.dir)
	percent := func(d time.Duration) string {
		return fmt.Sprintf("%.1f %%", 100*float64(d)/float64(after.at.Sub(before.at)))
	}
	rss, _ := residentMB(s.t, s.p.PID())
	s.table.add(step, what, "", percent(after.broker-before.broker), percent(after.database-before.database), "", "", strconv.Itoa(rss), "")
}

// note adds a load's line to the table.
func (s *site) note(step, what string, c cost, more string) {
	rss, _ := residentMB(s.t, s.p.PID())
	per := func(d time.Duration) string {
		return fmt.Sprintf("%.1f", float64(d.Microseconds())/float64(max(1, c.messages)))
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
	s.table.add(step, what, fmt.Sprintf("%.0f", c.rate()), per(c.broker), per(c.db), ms(c.p50), ms(c.p99), strconv.Itoa(rss), more)
}

// costGrows is how much more a message may cost at a later step.
const costGrows = 2

// flat is note for a load that must not cost more than it did.
func (s *site) flat(step, what string, c cost, more string) {
	s.t.Helper()
	s.note(step, what, c, more)
	if s.first == nil {
		return
	}
	was, seen := s.first[what]
	if !seen {
		s.first[what] = c.each()
	} else if c.each() > costGrows*was {
		s.t.Errorf("%s: a message of %q takes %.1f µs, at first it was %.1f", step, what, c.each(), was)
	}
}
