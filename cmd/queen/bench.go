package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"queenmq/cmd/queen/bench"
	"queenmq/store/localpg"
)

// benchCommand lists the loads.
type benchCommand struct {
	Produce  benchProduce  `cmd:"" help:"Produce records through the Kafka protocol, acks=all."`
	E2E      benchE2E      `cmd:"" name:"e2e" help:"Produce at a fixed rate and measure how long records take to a consumer, from when they were due."`
	Consume  benchConsume  `cmd:"" help:"Read what was produced, from the start, as a consumer that catches up."`
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

// benchRun is what every load has.
type benchRun struct {
	Rounds   int           `env:"QUEEN_ROUNDS" default:"10" placeholder:"N" help:"Rounds of each side (${default})."`
	Duration time.Duration `env:"QUEEN_DURATION" default:"5s" placeholder:"TIME" help:"Measured time of a round, after a short warm-up (${default})."`
	Verify   bool          `env:"QUEEN_VERIFY" help:"Read everything back at the end and check count and checksum of every record."`
	Output   string        `short:"o" env:"QUEEN_OUTPUT" default:"text" enum:"text,json" help:"Format of the report on stdout: ${enum}."`

	Serve       bool   `env:"QUEEN_SERVE" help:"Run a broker of this binary on free ports and a temporary data folder for as long as the load lasts."`
	DatabaseURL string `env:"QUEEN_DATABASE_URL" name:"database-url" placeholder:"URL" help:"PostgreSQL of the broker: for the baseline, and for its settings."`
	DataDir     folder `env:"QUEEN_DATA_DIR" name:"data-dir" placeholder:"DIR" help:"Data folder of a running queen serve, instead of --database-url."`
	Connections int    `env:"QUEEN_CONNECTIONS" default:"8" placeholder:"N" help:"Connections of the baseline (${default})."`
	Row         int    `env:"QUEEN_ROW" default:"0" placeholder:"BYTES" help:"Bytes of each row of the baseline; 0 tries 64 KiB, 256 KiB and 1 MiB and takes the best."`

	// Of a broker that runs for the load, or of an engine in this process.
	child  *childBroker
	engine *ownEngine
	began  bench.Conditions
}

// Validate bounds the load: it must stop by itself.
func (c *benchRun) Validate() error {
	switch {
	case c.Rounds < 1 || c.Rounds > bench.RoundsMax:
		return fmt.Errorf("--rounds is %d, must be 1 to %d", c.Rounds, bench.RoundsMax)
	case c.Duration < 10*time.Millisecond || c.Duration > bench.DurationMax:
		return fmt.Errorf("--duration is %s, must be 10ms to %s", c.Duration, bench.DurationMax)
	case c.Connections < 1 || c.Connections > 64:
		return fmt.Errorf("--connections is %d, must be 1 to 64", c.Connections)
	case c.Row != 0 && (c.Row < 1<<10 || c.Row > 64<<20):
		return fmt.Errorf("--row is %d, must be 0 or 1024 to %d", c.Row, 64<<20)
	case c.Serve && (c.DatabaseURL != "" || c.DataDir != ""):
		return errors.New("--serve makes its own database: leave out --database-url and --data-dir")
	}
	return nil
}

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
		payload, err := bench.NewPayload(bench.PayloadKind(c.Payload), c.Size, seed())
		if err != nil {
			return err
		}
		if c.child != nil {
			c.Brokers = []string{c.child.kafka}
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

func (c *benchConsume) Validate() error {
	if c.Fill < 1 || c.Fill > 100_000 {
		return fmt.Errorf("--fill is %d, must be 1 to 100000 MB", c.Fill)
	}
	if c.Vs == vsBaseline {
		return errors.New("--vs baseline only writes: name other brokers to compare reading with")
	}
	return errors.Join(c.benchRun.Validate(), c.benchKafka.Validate(),
		validateLoad(c.Size, c.Partitions, c.Clients), validateVs(c.Vs))
}

// fillLinger is that of the producers who write what is to be read.
const fillLinger = 10 * time.Millisecond

// Run fills topics and reads them, in turn with the other side.
func (c *benchConsume) Run(p *process) error {
	return c.around(p, func() error {
		payload, err := bench.NewPayload(bench.PayloadKind(c.Payload), c.Size, seed())
		if err != nil {
			return err
		}
		if c.child != nil {
			c.Brokers = []string{c.child.kafka}
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

// gcPercent makes the load collect its garbage twice as often as Go would: it is
// cheap there, and the memory belongs to what is measured.
const gcPercent = 50

// around runs a load, with a broker of our own around it when asked for.
func (c *benchRun) around(p *process, load func() error) (err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	if c.Serve {
		if c.child, err = startBroker(p.ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.child.stop()) }()
	}
	c.began = bench.Machine()
	return load()
}

// compare lets the side and the other one take turns and prints the report;
// without a side, the baseline is alone.
func (c *benchRun) compare(p *process, mode string, a bench.Side, vs string, payload *bench.Payload, other func(string, *bench.Database) bench.Side) (err error) {
	report := &bench.Report{Mode: mode, Conditions: c.began}
	report.Conditions.Rounds, report.Conditions.Duration = c.Rounds, c.Duration.String()
	plan := bench.Plan{Rounds: c.Rounds, Duration: c.Duration, Verify: c.Verify}

	db, folder, err := c.openDatabase(p.ctx, a == nil || vs == vsBaseline || vs == vsRows)
	if err != nil {
		return err
	}
	var baseline *bench.Baseline
	if db != nil {
		defer func() { err = errors.Join(err, closeDatabase(p.ctx, db)) }()
		if err := report.Conditions.AskDatabase(p.ctx, db, folder); err != nil {
			return err
		}
		plan.Settle = db.Settle
		baseline = &bench.Baseline{DB: db, Payload: payload, Connections: c.Connections, Row: c.Row, Duration: c.Duration}
	}
	var b bench.Side
	switch {
	case a == nil:
		a = baseline
	case vs == vsBaseline:
		b = baseline
	case vs != "":
		b, plan.CompareLatency, baseline = other(vs, db), true, nil
	default:
		baseline = nil
	}
	progress := bench.NewProgress(os.Stderr)
	plan.Watch = bench.Watch{Began: progress.Began, Ended: progress.Ended, Pair: func(i int, a bench.Round, b *bench.Round, ratio float64) {
		text := fmt.Sprintf("A %.1f MB/s", a.BytesPerSecond/1e6)
		if b != nil {
			text += fmt.Sprintf(", B %.1f MB/s, A/B %.3f", b.BytesPerSecond/1e6, ratio)
		}
		p.log.Info("round done", "round", fmt.Sprintf("%d/%d", i+1, c.Rounds), "result", text)
	}}
	out, err := bench.Run(p.ctx, plan, a, b)
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted; everything made for the load was removed again")
	}
	report.Finish(out, baseline)
	if len(out.A.Rounds) == 0 {
		return err
	}
	if c.Output == "json" {
		return errors.Join(err, report.WriteJSON(p.stdout))
	}
	return errors.Join(err, report.WriteText(p.stdout))
}

// openDatabase finds the PostgreSQL under the broker. Without the baseline it is
// only asked for its settings, and only when named.
func (c *benchRun) openDatabase(ctx context.Context, needed bool) (*bench.Database, string, error) {
	url, named, dir := c.DatabaseURL, c.DataDir, ""
	if c.child != nil {
		named = folder(c.child.dataDir)
	}
	if c.engine != nil {
		named = folder(c.engine.dataDir)
	}
	if url == "" && named == "" && !needed {
		return nil, "", nil
	}
	if url == "" {
		var err error
		if dir, err = dataDir(named); err != nil {
			return nil, "", err
		}
		if url, err = localpg.URLOf(dir); err != nil {
			return nil, "", fmt.Errorf("%w: start `queen serve` with this --data-dir first, "+
				"name another database with --database-url, or let --serve start a broker", err)
		}
	}
	db, err := bench.OpenDatabase(ctx, url, randomName())
	return db, dir, err
}

// closeDatabase drops what the load made, also when told to stop.
func closeDatabase(ctx context.Context, db *bench.Database) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return db.Close(ctx)
}

// randomName keeps runs beside each other apart.
func randomName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// seed makes each run's bytes new.
func seed() uint64 { return uint64(time.Now().UnixNano()) }

// hostPorts checks a list of addresses.
func hostPorts(flag string, addrs ...string) error {
	for _, a := range addrs {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}
