package main

import (
	"errors"
	"fmt"

	"queenmq/cmd/queen/bench"
)

// benchPop measures native consumers that catch up: pop and ack.
type benchPop struct {
	benchRun
	benchHTTP
	Messages int64  `env:"QUEEN_MESSAGES" default:"500000" placeholder:"N" help:"Messages pushed first; group after group then reads them all (${default})."`
	Payload  string `env:"QUEEN_PAYLOAD" default:"random" enum:"random,json" help:"What payloads are: ${enum}; random ones are text."`
	Vs       string `env:"QUEEN_VS" placeholder:"HOST:PORT" help:"Another HTTP door, in turn with the first."`
}

func (c *benchPop) Validate() error {
	switch {
	case c.Messages < 1 || c.Messages > benchIDsMax:
		return fmt.Errorf("--messages is %d, must be 1 to %d", c.Messages, benchIDsMax)
	case c.Vs == vsBaseline:
		return errors.New("--vs baseline only writes: name another HTTP door to compare popping with")
	}
	return errors.Join(c.benchRun.Validate(), c.benchHTTP.Validate(), validateVs(c.Vs))
}

// popFillBatch is how many messages of a request fill the queue.
const popFillBatch = 100

// Run fills queues and pops them empty, in turn with the other side.
func (c *benchPop) Run(p *process) error {
	return c.around(p, func() error {
		payload, err := c.begin(&c.benchRun, textKind(c.Payload))
		if err != nil {
			return err
		}
		side := func(addr string) bench.Side {
			filled := c.side(addr, payload)
			filled.Batch = popFillBatch
			return &bench.Pop{Messages: c.Messages, Take: c.Batch, Push: filled}
		}
		c.began.FillMessages = c.Messages
		return c.compare(p, "pop", side(c.HTTP), c.Vs, payload, func(vs string, _ *bench.Database) bench.Side {
			return side(vs)
		})
	})
}
