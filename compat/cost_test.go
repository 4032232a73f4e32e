package compat

import (
	"os"
	"strconv"
	"strings"
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
