package main

import (
	"errors"
	"fmt"
	"strings"

	"queenmq/cmd/queen/bench"
)

// benchDedup measures what deduplication costs: the same pushes to a queue with
// a window and to one without, or with repeated ids and without any.
type benchDedup struct {
	benchRun
	HTTP        string `env:"QUEEN_HTTP" name:"http" default:"127.0.0.1:6632" placeholder:"HOST:PORT" help:"HTTP door to put the load on (${default})."`
	IDs         int64  `env:"QUEEN_IDS" name:"ids" default:"1000000" placeholder:"N" help:"Ids stored in the window before the first round (${default})."`
	Duplicates  int    `env:"QUEEN_DUPLICATES" default:"0" placeholder:"PERCENT" help:"Repeated ids among those pushed, 0 to 50 percent; the other side then pushes the same without them."`
	Size        int    `env:"QUEEN_SIZE" default:"256" placeholder:"BYTES" help:"Size of a message's payload (${default})."`
	Partitions  int    `env:"QUEEN_PARTITIONS" default:"12" placeholder:"N" help:"Partitions of each queue (${default})."`
	Clients     int    `env:"QUEEN_CLIENTS" default:"8" placeholder:"N" help:"Clients, one request of each under way (${default})."`
	Batch       int    `env:"QUEEN_BATCH" default:"100" placeholder:"N" help:"Messages of a request, all for one partition (${default})."`
	DedupWindow int    `env:"QUEEN_DEDUP_WINDOW" name:"dedup-window" default:"3600" placeholder:"SECONDS" help:"Deduplication window (${default})."`
}

// benchIDsMax bounds what is stored before the first round.
const benchIDsMax = 100_000_000

func (c *benchDedup) Validate() error {
	c.HTTP = strings.TrimSuffix(strings.TrimPrefix(c.HTTP, "http://"), "/")
	switch {
	case c.IDs < 0 || c.IDs > benchIDsMax:
		return fmt.Errorf("--ids is %d, must be 0 to %d", c.IDs, benchIDsMax)
	case c.Duplicates < 0 || c.Duplicates > 50:
		return fmt.Errorf("--duplicates is %d, must be 0 to 50 percent", c.Duplicates)
	case c.Batch < 2 || c.Batch > 10000:
		return fmt.Errorf("--batch is %d, must be 2 to 10000", c.Batch)
	case c.DedupWindow < 1:
		return fmt.Errorf("--dedup-window is %d, must be at least 1", c.DedupWindow)
	case c.Verify && c.Duplicates > 0:
		return errors.New("--verify reads back every id pushed: leave out --duplicates")
	}
	return errors.Join(c.benchRun.Validate(), validateLoad(c.Size, c.Partitions, c.Clients), hostPorts("--http", c.HTTP))
}

// Run pushes to both queues in turn.
func (c *benchDedup) Run(p *process) error {
	return c.around(p, func() error {
		payload, err := bench.NewPayload(bench.Text, c.Size, seed())
		if err != nil {
			return err
		}
		if c.child != nil {
			c.HTTP = c.child.http
		}
		side := func(window, duplicates int, ids int64) *bench.Push {
			s := &bench.Push{
				Addr: c.HTTP, Queue: "queen-bench-" + randomName(), Partitions: c.Partitions, Batch: c.Batch, Window: window,
				Connections: c.Clients, Payload: payload, IDs: bench.UUIDs, Duplicates: duplicates, Fill: ids,
			}
			s.Label = fmt.Sprintf(", window %d s, %d of %d ids repeated", window, duplicates, c.Batch)
			return s
		}
		repeated := c.Batch * c.Duplicates / 100
		a, b := side(c.DedupWindow, repeated, c.IDs), side(0, 0, 0)
		if repeated > 0 {
			b = side(c.DedupWindow, 0, c.IDs)
		}
		to := &c.began
		to.Payload, to.Size, to.Partitions, to.Clients, to.Batch = bench.Text, c.Size, c.Partitions, c.Clients, c.Batch
		to.WindowSeconds, to.FillIDs, to.Duplicates = &c.DedupWindow, c.IDs, repeated
		return c.compare(p, "dedup", a, "the other queue", payload, func(string, *bench.Database) bench.Side { return b })
	})
}
