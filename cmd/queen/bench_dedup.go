package main

import (
	"errors"
	"fmt"
	"time"

	"queenmq/cmd/queen/bench"
)

// benchDedup measures what deduplication costs: the same pushes to a queue with
// a window and to one without, or with repeated ids and without any.
type benchDedup struct {
	benchRun
	benchHTTP
	IDs         int64         `env:"QUEEN_IDS" name:"ids" default:"1000000" placeholder:"N" help:"Ids stored in the window before the first round (${default})."`
	Duplicates  int           `env:"QUEEN_DUPLICATES" default:"0" placeholder:"PERCENT" help:"Repeated ids among those pushed, 0 to 50 percent; the other side then pushes the same without them."`
	DedupWindow int           `env:"QUEEN_DEDUP_WINDOW" name:"dedup-window" default:"3600" placeholder:"SECONDS" help:"Deduplication window (${default})."`
	Turn        time.Duration `env:"QUEEN_TURN" default:"2s" placeholder:"TIME" help:"How long a side pushes before the other one does, of a round's --duration (${default})."`
}

// benchIDsMax bounds what is stored before the first round.
const benchIDsMax = 100_000_000

func (c *benchDedup) Validate() error {
	switch {
	case c.IDs < 0 || c.IDs > benchIDsMax:
		return fmt.Errorf("--ids is %d, must be 0 to %d", c.IDs, benchIDsMax)
	case c.Duplicates < 0 || c.Duplicates > 50:
		return fmt.Errorf("--duplicates is %d, must be 0 to 50 percent", c.Duplicates)
	case c.Duplicates > 0 && c.Batch*c.Duplicates < 100:
		return fmt.Errorf("--duplicates=%d of a --batch of %d is not one message: raise either", c.Duplicates, c.Batch)
	case c.Turn < 10*time.Millisecond || c.Turn > bench.DurationMax:
		return fmt.Errorf("--turn is %s, must be 10ms to %s", c.Turn, bench.DurationMax)
	case c.DedupWindow < 1:
		return fmt.Errorf("--dedup-window is %d, must be at least 1", c.DedupWindow)
	case c.Verify && c.Duplicates > 0:
		return errors.New("--verify reads back every id pushed: leave out --duplicates")
	}
	return errors.Join(c.benchRun.Validate(), c.benchHTTP.Validate())
}

// Run pushes to both queues in turn.
func (c *benchDedup) Run(p *process) error {
	return c.around(p, func() error {
		payload, err := c.begin(&c.benchRun, bench.Text)
		if err != nil {
			return err
		}
		door := func(window, duplicates int, ids int64) *bench.Push {
			s := c.side(c.HTTP, payload)
			s.Window, s.Duplicates, s.Fill = window, duplicates, ids
			s.Label = fmt.Sprintf(", window %d s, %d of %d ids repeated", window, duplicates, c.Batch)
			return s
		}
		repeated := c.Batch * c.Duplicates / 100
		a, b := door(c.DedupWindow, repeated, c.IDs), door(0, 0, 0)
		if repeated > 0 {
			b = door(c.DedupWindow, 0, c.IDs)
		}
		c.turn = c.Turn
		c.began.WindowSeconds, c.began.FillIDs, c.began.Duplicates = &c.DedupWindow, c.IDs, repeated
		return c.compare(p, "dedup", a, "the other queue", payload, func(string, *bench.Database) bench.Side { return b })
	})
}
