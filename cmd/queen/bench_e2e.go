package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"queenmq/cmd/queen/bench"
)

// benchE2E measures latency from the moment a record is due to the moment a
// consumer that waits at the end has it.
type benchE2E struct {
	benchRun
	benchKafka
	Rate    int           `env:"QUEEN_RATE" default:"5000" placeholder:"N" help:"Records per second, whatever becomes of them (${default})."`
	Clients int           `env:"QUEEN_CLIENTS" default:"1" placeholder:"N" help:"Producers, and consumers (${default})."`
	Linger  time.Duration `env:"QUEEN_LINGER" default:"0s" placeholder:"TIME" help:"How long a producer waits for a batch to grow (${default})."`
	Vs      string        `env:"QUEEN_VS" placeholder:"HOST:PORT" help:"Other brokers, in turn with the first; a comma-separated list."`
}

// benchRateMax keeps the time between two records well above the clock's steps.
const benchRateMax = 1_000_000

func (c *benchE2E) Validate() error {
	switch {
	case c.Rate < 1 || c.Rate > benchRateMax:
		return fmt.Errorf("--rate is %d, must be 1 to %d records per second", c.Rate, benchRateMax)
	case c.Vs == vsBaseline:
		return errors.New("--vs baseline only writes: name other brokers to compare latency with")
	}
	return errors.Join(c.benchRun.Validate(), c.benchKafka.Validate(),
		validateLoad(c.Size, c.Partitions, c.Clients), validateLinger(c.Linger), validateVs(c.Vs))
}

// Run sends at the rate and follows, in turn with the other side.
func (c *benchE2E) Run(p *process) error {
	return c.around(p, func() error {
		payload, err := c.begin(c.child)
		if err != nil {
			return err
		}
		side := func(brokers []string, vs bool) bench.Side {
			return &bench.E2E{Kafka: c.side(brokers, vs, c.Clients, c.Linger, payload), Rate: c.Rate}
		}
		c.conditions(&c.began, c.Clients, c.Linger)
		c.began.Rate, c.began.FetchMaxWait = c.Rate, bench.FetchMaxWait.String()
		return c.compare(p, "e2e", side(c.Brokers, false), c.Vs, payload, func(vs string, _ *bench.Database) bench.Side {
			return side(strings.Split(vs, ","), true)
		})
	})
}
