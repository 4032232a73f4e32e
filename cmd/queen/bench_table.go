package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"queenmq/cmd/queen/bench"
)

// benchTable runs the loads of the Kafka protocol one after the other, each with
// every combination of what a user would ask about.
type benchTable struct {
	benchRun
	Brokers         []string `env:"QUEEN_BROKERS" default:"127.0.0.1:9092" placeholder:"HOST:PORT" help:"Brokers to put the load on (${default})."`
	Vs              []string `env:"QUEEN_VS" required:"" placeholder:"HOST:PORT" help:"Apache Kafka's brokers, in turn with the first."`
	Loads           []string `env:"QUEEN_LOADS" default:"produce,consume,e2e" enum:"produce,consume,e2e" placeholder:"NAME" help:"Which loads: ${enum}."`
	Sizes           []int    `env:"QUEEN_SIZES" default:"1024,100" placeholder:"BYTES" help:"Sizes of a record's value (${default})."`
	PartitionCounts []int    `env:"QUEEN_PARTITION_COUNTS" default:"1,100" placeholder:"N" help:"Partitions of a topic (${default})."`
	Compressions    []string `env:"QUEEN_COMPRESSIONS" default:"none,lz4" enum:"none,lz4,zstd" placeholder:"NAME" help:"What clients compress with: ${enum}; e2e has none."`
	Flushes         []string `env:"QUEEN_FLUSHES" default:"default,append" enum:"default,append" placeholder:"WHEN" help:"When Apache Kafka syncs: by its defaults (by itself hardly ever), or on each append (flush.messages=1), as we do. One is enough for consume."`
	Payload         string   `env:"QUEEN_PAYLOAD" default:"random" enum:"random,json" help:"What values are: ${enum}."`
	Clients         int      `env:"QUEEN_CLIENTS" default:"4" placeholder:"N" help:"Clients of produce and consume, each with connections of its own (${default}); e2e has one."`
	Fill            int64    `env:"QUEEN_FILL" default:"128" placeholder:"MB" help:"How much is produced first for consume (${default} MB)."`
	Rate            int      `env:"QUEEN_RATE" default:"5000" placeholder:"N" help:"Records per second of e2e (${default})."`
}

// Validate bounds the loads, as theirs do.
func (c *benchTable) Validate() error {
	errs := []error{c.benchRun.Validate(), hostPorts("--brokers", c.Brokers...), hostPorts("--vs", c.Vs...)}
	for _, size := range c.Sizes {
		errs = append(errs, validateLoad(size, 1, c.Clients))
	}
	for _, partitions := range c.PartitionCounts {
		errs = append(errs, validateLoad(bench.ValueBytesMin, partitions, 1))
	}
	errs = append(errs, validateFill(c.Fill))
	if c.Rate < 1 || c.Rate > benchRateMax {
		errs = append(errs, fmt.Errorf("--rate is %d, must be 1 to %d records per second", c.Rate, benchRateMax))
	}
	return errors.Join(errs...)
}

// flushes are the words for when Apache Kafka syncs, and the topic config for it.
var flushes = map[string]struct {
	text   string
	config map[string]string
}{
	"default": {"by its defaults", nil},
	"append":  {"each append", map[string]string{"flush.messages": "1"}},
}

// cells are the combinations that differ from each other.
func (c *benchTable) cells() []bench.Cell {
	var all []bench.Cell
	for _, load := range c.Loads {
		for _, flush := range c.Flushes {
			if load == "consume" && flush != c.Flushes[0] {
				continue // what was written is the same
			}
			for _, size := range c.Sizes {
				for _, partitions := range c.PartitionCounts {
					for _, compression := range c.Compressions {
						if load == "e2e" {
							compression = "none" // one record at a time
						}
						cell := bench.Cell{Load: load, Size: size, Partitions: partitions, Compression: compression, Flush: flush}
						if !slices.Contains(all, cell) {
							all = append(all, cell)
						}
					}
				}
			}
		}
	}
	return all
}

// Run measures cell after cell, and prints those that were, also when one fails.
func (c *benchTable) Run(p *process) error {
	return c.around(p, func() error {
		if c.child != nil {
			c.Brokers = []string{c.child.kafka}
		}
		table := &bench.Table{Mode: "kafka"}
		// A Java process gets fast by running, and a new topic's leaders take a while
		// to be known: one round of each load is thrown away.
		c.discard = 1
		var failed error
		cells := c.cells()
		for i, cell := range cells {
			p.log.Info("load", "number", fmt.Sprintf("%d/%d", i+1, len(cells)), "load", cell.Load, "flush", cell.Flush,
				"size", cell.Size, "partitions", cell.Partitions, "compression", cell.Compression)
			if cell.Report, failed = c.measureCell(p, cell); failed != nil {
				failed = fmt.Errorf("%s of %d B, %d partitions, %s: %w", cell.Load, cell.Size, cell.Partitions, cell.Compression, failed)
				break
			}
			cell.Flush = flushes[cell.Flush].text
			table.Cells = append(table.Cells, cell)
		}
		if c.Output == "json" {
			return errors.Join(failed, table.WriteJSON(p.stdout))
		}
		return errors.Join(failed, table.WriteMarkdown(p.stdout))
	})
}

// measureCell runs one load on both sides.
func (c *benchTable) measureCell(p *process, cell bench.Cell) (*bench.Report, error) {
	payload, err := bench.NewPayload(bench.PayloadKind(c.Payload), cell.Size, seed())
	if err != nil {
		return nil, err
	}
	k := benchKafka{
		Size: cell.Size, Payload: c.Payload, Partitions: cell.Partitions, Compression: cell.Compression, Idempotent: true,
		VsTopicConfig: flushes[cell.Flush].config,
	}
	clients, linger := c.Clients, fillLinger
	if cell.Load == "e2e" {
		clients, linger = 1, 0
	}
	side := func(brokers []string, vs bool) bench.Side {
		s := k.side(brokers, vs, clients, linger, payload)
		switch cell.Load {
		case "consume":
			return &bench.Consume{Kafka: s, FillBytes: c.Fill * 1e6}
		case "e2e":
			return &bench.E2E{Kafka: s, Rate: c.Rate}
		default:
			return s
		}
	}
	k.conditions(&c.began, clients, linger)
	c.began.Rate, c.began.FetchMaxWait, c.began.FillBytes = 0, "", 0
	switch cell.Load {
	case "consume":
		c.began.FillBytes = c.Fill * 1e6
	case "e2e":
		c.began.Rate, c.began.FetchMaxWait = c.Rate, bench.FetchMaxWait.String()
	}
	return c.measure(p, cell.Load, side(c.Brokers, false), strings.Join(c.Vs, ","), payload, func(string, *bench.Database) bench.Side {
		return side(c.Vs, true)
	})
}
