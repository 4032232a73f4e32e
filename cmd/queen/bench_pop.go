package main

import (
	"errors"
	"fmt"

	"queenmq/cmd/queen/bench"
)

// benchPop measures native consumers that catch up: pop and ack.
type benchPop struct {
	benchRun
	HTTP       string `env:"QUEEN_HTTP" name:"http" default:"127.0.0.1:6632" placeholder:"HOST:PORT" help:"HTTP door to put the load on (${default})."`
	Messages   int64  `env:"QUEEN_MESSAGES" default:"500000" placeholder:"N" help:"Messages pushed first; group after group then reads them all (${default})."`
	Size       int    `env:"QUEEN_SIZE" default:"256" placeholder:"BYTES" help:"Size of a message's payload (${default})."`
	Payload    string `env:"QUEEN_PAYLOAD" default:"random" enum:"random,json" help:"What payloads are: ${enum}; random ones are text."`
	Partitions int    `env:"QUEEN_PARTITIONS" default:"12" placeholder:"N" help:"Partitions of the queue (${default})."`
	Clients    int    `env:"QUEEN_CLIENTS" default:"8" placeholder:"N" help:"Clients, each with one pop or one ack under way (${default})."`
	Batch      int    `env:"QUEEN_BATCH" default:"100" placeholder:"N" help:"Messages of a pop at most (${default})."`
	Vs         string `env:"QUEEN_VS" placeholder:"HOST:PORT" help:"Another HTTP door, in turn with the first."`
}

func (c *benchPop) Validate() error {
	switch {
	case c.Batch < 1 || c.Batch > 10000:
		return fmt.Errorf("--batch is %d, must be 1 to 10000", c.Batch)
	case c.Messages < 1 || c.Messages > benchIDsMax:
		return fmt.Errorf("--messages is %d, must be 1 to %d", c.Messages, benchIDsMax)
	case c.Vs == vsBaseline:
		return errors.New("--vs baseline only writes: name another HTTP door to compare popping with")
	}
	return errors.Join(c.benchRun.Validate(), validateLoad(c.Size, c.Partitions, c.Clients),
		hostPorts("--http", c.HTTP), validateVs(c.Vs))
}

// popFillBatch is how many messages of a request fill the queue.
const popFillBatch = 100

// Run fills queues and pops them empty, in turn with the other side.
func (c *benchPop) Run(p *process) error {
	return c.around(p, func() error {
		kind := textKind(c.Payload)
		payload, err := bench.NewPayload(kind, c.Size, seed())
		if err != nil {
			return err
		}
		if c.child != nil {
			c.HTTP = c.child.http
		}
		side := func(addr string) bench.Side {
			return &bench.Pop{Messages: c.Messages, Take: c.Batch, Push: &bench.Push{
				Addr: addr, Queue: "queen-bench-" + randomName(), Partitions: c.Partitions, Batch: popFillBatch,
				Connections: c.Clients, Payload: payload, IDs: bench.UUIDs,
			}}
		}
		b := &c.began
		b.Payload, b.Size, b.Partitions, b.Clients, b.Batch = kind, c.Size, c.Partitions, c.Clients, c.Batch
		b.FillMessages = c.Messages
		return c.compare(p, "pop", side(c.HTTP), c.Vs, payload, func(vs string, _ *bench.Database) bench.Side {
			return side(vs)
		})
	})
}
