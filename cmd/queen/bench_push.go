package main

import (
	"errors"
	"fmt"

	"queenmq/cmd/queen/bench"
)

type benchPush struct {
	benchRun
	HTTP        string `env:"QUEEN_HTTP" name:"http" default:"127.0.0.1:6632" placeholder:"HOST:PORT" help:"HTTP door to put the load on (${default})."`
	Size        int    `env:"QUEEN_SIZE" default:"256" placeholder:"BYTES" help:"Size of a message's payload (${default})."`
	Payload     string `env:"QUEEN_PAYLOAD" default:"random" enum:"random,json" help:"What payloads are: ${enum}; random ones are text."`
	Partitions  int    `env:"QUEEN_PARTITIONS" default:"12" placeholder:"N" help:"Partitions of the queue (${default})."`
	Clients     int    `env:"QUEEN_CLIENTS" default:"8" placeholder:"N" help:"Clients, one request of each under way (${default})."`
	Batch       int    `env:"QUEEN_BATCH" default:"100" placeholder:"N" help:"Messages of a request, all for one partition (${default})."`
	IDKind      string `env:"QUEEN_ID_KIND" name:"id-kind" default:"uuid" enum:"uuid,sequential" help:"What the ids of messages are: ${enum}; random UUIDs, or each client counts."`
	DedupWindow int    `env:"QUEEN_DEDUP_WINDOW" name:"dedup-window" default:"3600" placeholder:"SECONDS" help:"Deduplication window of the queue, 0 for none (${default})."`
	Vs          string `env:"QUEEN_VS" placeholder:"OTHER" help:"Other side, in turn with the first: another HTTP door, the word baseline (the same bytes, bare), or the word rows (the same messages in a table with a unique index on their ids)."`
	Engine      bool   `env:"QUEEN_ENGINE" help:"Push into an engine inside this process, on a PostgreSQL of its own, instead of over HTTP."`
}

func (c *benchPush) Validate() error {
	switch {
	case c.Batch < 1 || c.Batch > 10000:
		return fmt.Errorf("--batch is %d, must be 1 to 10000", c.Batch)
	case c.Engine && (c.Serve || c.DatabaseURL != "" || c.DataDir != ""):
		return errors.New("--engine makes its own database: leave out --serve, --database-url and --data-dir")
	case c.Vs == vsRows && c.DedupWindow == 0:
		return errors.New("--vs rows deduplicates: give --dedup-window a time")
	case c.DedupWindow < 0:
		return fmt.Errorf("--dedup-window is %d, must not be negative", c.DedupWindow)
	}
	return errors.Join(c.benchRun.Validate(), validateLoad(c.Size, c.Partitions, c.Clients),
		hostPorts("--http", c.HTTP), c.validateVs())
}

func (c *benchPush) validateVs() error {
	switch {
	case c.Vs == vsRows:
		return nil
	case c.Engine && c.Vs != "" && c.Vs != vsBaseline:
		return errors.New("--engine is compared with baseline or rows on its own database")
	}
	return validateVs(c.Vs)
}

// Run pushes to the HTTP door, in turn with the other side.
func (c *benchPush) Run(p *process) (err error) {
	if c.Engine {
		if c.engine, err = startEngine(p.ctx, p.log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.engine.stop(p.ctx)) }()
	}
	return c.around(p, func() error {
		kind := textKind(c.Payload)
		payload, err := bench.NewPayload(kind, c.Size, seed())
		if err != nil {
			return err
		}
		if c.child != nil {
			c.HTTP = c.child.http
		}
		b := &c.began
		b.Payload, b.Size, b.Partitions, b.Clients, b.Batch = kind, c.Size, c.Partitions, c.Clients, c.Batch
		b.IDs = bench.IDKind(c.IDKind)
		b.WindowSeconds = &c.DedupWindow
		var a bench.Side = c.door(c.HTTP, payload)
		if c.Engine {
			a = &bench.Engine{
				Engine: c.engine.engine, Queue: "queen-bench-" + randomName(), Partitions: c.Partitions, Batch: c.Batch,
				Window: c.DedupWindow, Connections: c.Clients, Payload: payload, IDs: bench.IDKind(c.IDKind),
			}
		}
		return c.compare(p, "push", a, c.Vs, payload, func(vs string, db *bench.Database) bench.Side {
			if vs == vsRows {
				return &bench.Rows{DB: db, Partitions: c.Partitions, Batch: c.Batch, Connections: c.Clients, Payload: payload, IDs: bench.IDKind(c.IDKind)}
			}
			return c.door(vs, payload)
		})
	})
}

func (c *benchPush) door(addr string, payload *bench.Payload) *bench.Push {
	return &bench.Push{
		Addr: addr, Queue: "queen-bench-" + randomName(), Partitions: c.Partitions, Batch: c.Batch,
		Window: c.DedupWindow, Connections: c.Clients, Payload: payload, IDs: bench.IDKind(c.IDKind),
	}
}

// textKind is a kind of payload as HTTP can carry it as JSON.
func textKind(kind string) bench.PayloadKind {
	if k := bench.PayloadKind(kind); k != bench.Random {
		return k
	}
	return bench.Text
}
