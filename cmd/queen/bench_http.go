package main

import (
	"errors"
	"fmt"

	"queenmq/cmd/queen/bench"
)

// benchHTTP is what loads through the HTTP door have.
type benchHTTP struct {
	HTTP       string `env:"QUEEN_HTTP" name:"http" default:"127.0.0.1:6632" placeholder:"HOST:PORT" help:"HTTP door to put the load on (${default})."`
	Size       int    `env:"QUEEN_SIZE" default:"256" placeholder:"BYTES" help:"Size of a message's payload (${default})."`
	Partitions int    `env:"QUEEN_PARTITIONS" default:"12" placeholder:"N" help:"Partitions of the queue (${default})."`
	Clients    int    `env:"QUEEN_CLIENTS" default:"8" placeholder:"N" help:"Clients, one request of each under way (${default})."`
	Batch      int    `env:"QUEEN_BATCH" default:"100" placeholder:"N" help:"Messages of a push, all for one partition, or of a pop at most (${default})."`
}

func (c *benchHTTP) Validate() error {
	var batch error
	if c.Batch < 1 || c.Batch > 10000 {
		batch = fmt.Errorf("--batch is %d, must be 1 to 10000", c.Batch)
	}
	return errors.Join(batch, validateLoad(c.Size, c.Partitions, c.Clients), hostPorts("--http", c.HTTP))
}

// begin makes the payloads, notes them, and takes the broker that runs for the load, if
// one does.
func (c *benchHTTP) begin(run *benchRun, kind bench.PayloadKind) (*bench.Payload, error) {
	if run.child != nil {
		c.HTTP = run.child.http
	}
	to := &run.began
	to.Payload, to.Size, to.Partitions, to.Clients, to.Batch = kind, c.Size, c.Partitions, c.Clients, c.Batch
	return bench.NewPayload(kind, c.Size, seed())
}

// side pushes to a door, into a queue of its own.
func (c *benchHTTP) side(addr string, payload *bench.Payload) *bench.Push {
	return &bench.Push{
		Addr: addr, Queue: "queen-bench-" + randomName(), Partitions: c.Partitions, Batch: c.Batch,
		Connections: c.Clients, Payload: payload, IDs: bench.UUIDs,
	}
}

// textKind is a kind of payload as HTTP can carry it as JSON.
func textKind(kind string) bench.PayloadKind {
	if k := bench.PayloadKind(kind); k != bench.Random {
		return k
	}
	return bench.Text
}
