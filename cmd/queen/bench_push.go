package main

import (
	"errors"
	"fmt"
	"runtime/debug"

	"queenmq/cmd/queen/bench"
)

type benchPush struct {
	benchRun
	benchHTTP
	Payload     string `env:"QUEEN_PAYLOAD" default:"random" enum:"random,json" help:"What payloads are: ${enum}; random ones are text."`
	IDKind      string `env:"QUEEN_ID_KIND" name:"id-kind" default:"uuid" enum:"uuid,sequential" help:"What the ids of messages are: ${enum}; random UUIDs, or each client counts."`
	DedupWindow int    `env:"QUEEN_DEDUP_WINDOW" name:"dedup-window" default:"3600" placeholder:"SECONDS" help:"Deduplication window of the queue, 0 for none (${default})."`
	Vs          string `env:"QUEEN_VS" placeholder:"OTHER" help:"Other side, in turn with the first: another HTTP door, the word baseline (the same bytes, bare), or the word rows (the same messages in a table with a unique index on their ids)."`
	Engine      bool   `env:"QUEEN_ENGINE" help:"Push into an engine inside this process, on a PostgreSQL of its own, instead of over HTTP."`
}

func (c *benchPush) Validate() error {
	switch {
	case c.Engine && (c.Serve || c.DatabaseURL != "" || c.DataDir != ""):
		return errors.New("--engine makes its own database: leave out --serve, --database-url and --data-dir")
	case c.Vs == vsRows && c.DedupWindow == 0:
		return errors.New("--vs rows deduplicates: give --dedup-window a time")
	case c.DedupWindow < 0:
		return fmt.Errorf("--dedup-window is %d, must not be negative", c.DedupWindow)
	}
	return errors.Join(c.benchRun.Validate(), c.benchHTTP.Validate(), c.validateVs())
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
		payload, err := c.begin(&c.benchRun, textKind(c.Payload))
		if err != nil {
			return err
		}
		c.began.IDs, c.began.WindowSeconds = bench.IDKind(c.IDKind), &c.DedupWindow
		var a bench.Side = c.door(c.HTTP, payload)
		if c.Engine {
			debug.SetGCPercent(serveGCPercent) // it is measured here, as a broker would run it
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
	s := c.side(addr, payload)
	s.Window, s.IDs = c.DedupWindow, bench.IDKind(c.IDKind)
	return s
}
