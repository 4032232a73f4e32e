package compat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/compat/broker"
)

// What a message costs as something grows: partitions, connections, the log. It
// is told in processor time of the broker and of its database, which a busy
// machine moves less than rates and times. `make scale` runs it at size (SCALE
// names the parts) and prints tables; in every run it is small and asserts nothing
// but that all of it works.

// costSizes are how far things grow, and how long each is measured.
type costSizes struct {
	sized       bool
	partitions  []int
	connections []int
	logMB       []int
	span        time.Duration // of a load
	idle        time.Duration
	clients     int
}

// costSizesOf is what SCALE says of a part, or small; ok is false where others
// are asked for. SCALE names parts, each with the steps to take or all of them:
// "partitions:1,10000 log".
func costSizesOf(t *testing.T, part string) (s costSizes, ok bool) {
	t.Helper()
	asked := os.Getenv("SCALE")
	if asked == "" {
		return costSizes{
			partitions: []int{1, 30}, connections: []int{1, 20}, logMB: []int{4},
			span: 5 * time.Millisecond, idle: 5 * time.Millisecond, clients: 2,
		}, true
	}
	s = costSizes{
		sized: true, partitions: []int{1, 100, 10_000, 100_000}, connections: []int{1, 10, 100, 1000},
		logMB: []int{1 << 10, 5 << 10, 20 << 10}, span: 4 * time.Second, idle: 15 * time.Second, clients: 8,
	}
	for one := range strings.FieldsSeq(asked) {
		name, steps, some := strings.Cut(one, ":")
		if name != part {
			continue
		}
		if some {
			var to []int
			for text := range strings.SplitSeq(steps, ",") {
				n, err := strconv.Atoi(text)
				if err != nil || n < 1 {
					t.Fatalf("SCALE: %q is no step of %s", text, part)
				}
				to = append(to, n)
			}
			s.partitions, s.connections, s.logMB = to, to, to
		}
		return s, true
	}
	return s, false
}

// site is a broker with its database, and what is asked of them.
type site struct {
	t     *testing.T
	p     *broker.Process
	dir   string
	db    *pgx.Conn
	table costTable
	first map[string]float64 // µs per message of a load, where it was first compared; nil: nothing is
}

// TestCost measures what a message costs as partitions, connections and the log grow.
func TestCost(t *testing.T) {
	var p *broker.Process
	var dir string
	for _, part := range []struct {
		name, title string
		run         func(s *site, size costSizes)
	}{
		{"partitions", "Cost as partitions grow", (*site).costOfPartitions},
		{"connections", "Cost as connections grow", (*site).costOfConnections},
		{"log", "Cost as the log grows", (*site).costOfTheLog}, // the last: it starts the broker anew
	} {
		size, asked := costSizesOf(t, part.name)
		if !asked {
			continue
		}
		if p == nil || size.sized { // small, they share a broker
			dir = broker.TempDataDir(t)
			p = start(t, broker.Config{DataDir: dir, Args: strings.Fields(os.Getenv("SCALE_ARGS"))})
		}
		t.Run(part.name, func(t *testing.T) {
			s := &site{t: t, p: p, dir: dir, db: database(t.Context(), t, dir), table: costTable{title: part.title}}
			if size.sized {
				s.table.progress = t.Log // it takes minutes
				s.first = map[string]float64{}
			}
			defer func() { t.Logf("\n%s", s.table.String()) }()
			part.run(s, size)
		})
	}
}

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

var costColumns = []string{"step", "load", "msg/s", "broker µs/msg", "database µs/msg", "p50 ms", "p99 ms", "broker RSS MB", ""}

// costHTTP keeps a connection for each client.
var costHTTP = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}}

// costIDs makes every id new.
var costIDs atomic.Int64

const costValueBytes = 256

// letters is text that compresses little, to take values from.
var letters = func() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[r.IntN(64)]
	}
	return b
}()

// The versions spoken: the last ones with names and the session of a fetch.
const (
	costProduce = 9
	costFetch   = 12
)

// topicWidth is how many partitions a topic has at most.
const topicWidth = 10_000
