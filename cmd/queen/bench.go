package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"queenmq/cmd/queen/bench"
)

// benchCommand lists the loads.
type benchCommand struct {
	Produce  benchProduce  `cmd:"" help:"Produce records through the Kafka protocol, acks=all."`
	E2E      benchE2E      `cmd:"" name:"e2e" help:"Produce at a fixed rate and measure how long records take to a consumer, from when they were due."`
	Consume  benchConsume  `cmd:"" help:"Read what was produced, from the start, as a consumer that catches up."`
	Kafka    benchTable    `cmd:"" help:"Produce, consume and e2e against Apache Kafka, in many sizes, as one table."`
	Push     benchPush     `cmd:"" help:"Push batches of messages with ids over HTTP."`
	Pop      benchPop      `cmd:"" help:"Pop leased batches over HTTP and acknowledge them."`
	Dedup    benchDedup    `cmd:"" help:"Push with deduplication, in turn with pushing without it."`
	Baseline benchBaseline `cmd:"" help:"Write bare rows of bytes into PostgreSQL: what the broker is measured against."`
}

// The words for the other sides that write into PostgreSQL directly.
const (
	vsBaseline = "baseline" // the same bytes, bare
	vsRows     = "rows"     // the same messages, a row each
)

// benchKafka is what loads through the Kafka protocol have.
type benchKafka struct {
	Brokers     []string `env:"QUEEN_BROKERS" default:"127.0.0.1:9092" placeholder:"HOST:PORT" help:"Brokers to put the load on (${default})."`
	Size        int      `env:"QUEEN_SIZE" default:"1024" placeholder:"BYTES" help:"Size of a record's value (${default})."`
	Payload     string   `env:"QUEEN_PAYLOAD" default:"random" enum:"random,json" help:"What values are: ${enum}."`
	Partitions  int      `env:"QUEEN_PARTITIONS" default:"12" placeholder:"N" help:"Partitions of the topic (${default})."`
	Compression string   `env:"QUEEN_COMPRESSION" default:"none" enum:"none,lz4,zstd" help:"What the client compresses batches with: ${enum}."`
	Idempotent  bool     `env:"QUEEN_IDEMPOTENT" default:"true" negatable:"" help:"Produce as an idempotent producer, as today's clients do by default."`

	TopicConfig   map[string]string `env:"QUEEN_TOPIC_CONFIG" placeholder:"NAME=VALUE" help:"Configs of the topic; several with semicolons."`
	VsTopicConfig map[string]string `env:"QUEEN_VS_TOPIC_CONFIG" placeholder:"NAME=VALUE" help:"Configs of the other side's topic, such as flush.messages=1."`
}

func (c *benchKafka) Validate() error {
	return hostPorts("--brokers", c.Brokers...)
}

func validateLoad(size, partitions, clients int) error {
	switch {
	case size < bench.ValueBytesMin || size > bench.ValueBytesMax:
		return fmt.Errorf("--size is %d, must be %d to %d", size, bench.ValueBytesMin, bench.ValueBytesMax)
	case partitions < 1 || partitions > 10000:
		return fmt.Errorf("--partitions is %d, must be 1 to 10000", partitions)
	case clients < 1 || clients > 1000:
		return fmt.Errorf("--clients is %d, must be 1 to 1000", clients)
	}
	return nil
}

// side is one of the two: they differ in the brokers and in what their topics are configured to.
func (c *benchKafka) side(brokers []string, vs bool, clients int, linger time.Duration, payload *bench.Payload) *bench.Kafka {
	config := c.TopicConfig
	if vs {
		config = c.VsTopicConfig
	}
	return &bench.Kafka{
		Brokers: brokers, Topic: "queen-bench-" + randomName(), Partitions: c.Partitions, Compression: c.Compression,
		Idempotent: c.Idempotent, Connections: clients, Linger: linger, Payload: payload, TopicConfig: config,
	}
}

// begin makes the values, and takes the broker that runs for the load, if one does.
func (c *benchKafka) begin(child *childBroker) (*bench.Payload, error) {
	if child != nil {
		c.Brokers = []string{child.kafka}
	}
	return bench.NewPayload(bench.PayloadKind(c.Payload), c.Size, seed())
}

func (c *benchKafka) conditions(to *bench.Conditions, clients int, linger time.Duration) {
	to.Payload, to.Size, to.Partitions, to.Clients = bench.PayloadKind(c.Payload), c.Size, c.Partitions, clients
	to.Acks, to.Compression, to.Idempotent, to.Linger = "all", c.Compression, &c.Idempotent, linger.String()
	to.BufferedBytes, to.Client = bench.BufferedBytes, bench.ClientVersion()
	to.TopicConfig, to.VsTopicConfig = c.TopicConfig, c.VsTopicConfig
}

type benchProduce struct {
	benchRun
	benchKafka
	Clients int           `env:"QUEEN_CLIENTS" default:"4" placeholder:"N" help:"Clients, each with connections of its own (${default})."`
	Linger  time.Duration `env:"QUEEN_LINGER" default:"10ms" placeholder:"TIME" help:"How long a client waits for a batch to grow (${default}, franz-go's own default)."`
	Vs      string        `env:"QUEEN_VS" placeholder:"OTHER" help:"Other side, in turn with the first: the word baseline, or a comma-separated list of brokers."`
}

func (c *benchProduce) Validate() error {
	return errors.Join(c.benchRun.Validate(), c.benchKafka.Validate(),
		validateLoad(c.Size, c.Partitions, c.Clients), validateLinger(c.Linger), validateVs(c.Vs))
}

// benchLingerMax is Kafka's clients' sense of far too long.
const benchLingerMax = time.Minute

func validateLinger(linger time.Duration) error {
	if linger < 0 || linger > benchLingerMax {
		return fmt.Errorf("--linger is %s, must be 0s to %s", linger, benchLingerMax)
	}
	return nil
}

// validateVs wants the word for the baseline, or addresses.
func validateVs(vs string) error {
	if vs == "" || vs == vsBaseline {
		return nil
	}
	return hostPorts("--vs", strings.Split(vs, ",")...)
}

// Run produces to the brokers, in turn with the other side.
func (c *benchProduce) Run(p *process) error {
	return c.around(p, func() error {
		payload, err := c.begin(c.child)
		if err != nil {
			return err
		}
		c.conditions(&c.began, c.Clients, c.Linger)
		return c.compare(p, "produce", c.side(c.Brokers, false, c.Clients, c.Linger, payload), c.Vs, payload, func(vs string, _ *bench.Database) bench.Side {
			return c.side(strings.Split(vs, ","), true, c.Clients, c.Linger, payload)
		})
	})
}

type benchConsume struct {
	benchRun
	benchKafka
	Clients int    `env:"QUEEN_CLIENTS" default:"4" placeholder:"N" help:"Clients, each with connections of its own (${default})."`
	Fill    int64  `env:"QUEEN_FILL" default:"512" placeholder:"MB" help:"How much is produced first, to be read (${default} MB)."`
	Vs      string `env:"QUEEN_VS" placeholder:"HOST:PORT" help:"Other brokers, in turn with the first; a comma-separated list."`
}

// Validate refuses what cannot be compared.
func (c *benchConsume) Validate() error {
	if c.Vs == vsBaseline {
		return errors.New("--vs baseline only writes: name other brokers to compare reading with")
	}
	return errors.Join(c.benchRun.Validate(), c.benchKafka.Validate(),
		validateLoad(c.Size, c.Partitions, c.Clients), validateFill(c.Fill), validateVs(c.Vs))
}

func validateFill(mb int64) error {
	if mb < 1 || mb > 100_000 {
		return fmt.Errorf("--fill is %d, must be 1 to 100000 MB", mb)
	}
	return nil
}

// fillLinger is that of producers where a load does not say: franz-go's own default.
const fillLinger = 10 * time.Millisecond

// Run fills topics and reads them, in turn with the other side.
func (c *benchConsume) Run(p *process) error {
	return c.around(p, func() error {
		payload, err := c.begin(c.child)
		if err != nil {
			return err
		}
		side := func(brokers []string, vs bool) bench.Side {
			return &bench.Consume{Kafka: c.side(brokers, vs, c.Clients, fillLinger, payload), FillBytes: c.Fill * 1e6}
		}
		c.conditions(&c.began, c.Clients, fillLinger)
		c.began.FillBytes = c.Fill * 1e6
		return c.compare(p, "consume", side(c.Brokers, false), c.Vs, payload, func(vs string, _ *bench.Database) bench.Side {
			return side(strings.Split(vs, ","), true)
		})
	})
}

type benchBaseline struct {
	benchRun
	Size    int    `env:"QUEEN_SIZE" default:"1024" placeholder:"BYTES" help:"Size of the values rows are made of (${default})."`
	Payload string `env:"QUEEN_PAYLOAD" default:"random" enum:"random,json" help:"What values are: ${enum}."`
}

// Run writes bare rows, with nothing to compare them to.
func (c *benchBaseline) Run(p *process) error {
	return c.around(p, func() error {
		payload, err := bench.NewPayload(bench.PayloadKind(c.Payload), c.Size, seed())
		if err != nil {
			return err
		}
		c.began.Payload, c.began.Size = bench.PayloadKind(c.Payload), c.Size
		return c.compare(p, "baseline", nil, "", payload, nil)
	})
}

// hostPorts checks a list of addresses.
func hostPorts(flag string, addrs ...string) error {
	for _, a := range addrs {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}
