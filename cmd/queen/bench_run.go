package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"queenmq/cmd/queen/bench"
	"queenmq/store/localpg"
)

// benchRun is what every load has.
type benchRun struct {
	Rounds   int           `env:"QUEEN_ROUNDS" default:"10" placeholder:"N" help:"Rounds of each side (${default})."`
	Duration time.Duration `env:"QUEEN_DURATION" default:"5s" placeholder:"TIME" help:"Measured time of a round, after a short warm-up (${default})."`
	Verify   bool          `env:"QUEEN_VERIFY" help:"Read everything back at the end and check count and checksum of every record."`
	Output   string        `short:"o" env:"QUEEN_OUTPUT" default:"text" enum:"text,json" help:"Format of the report on stdout: ${enum}."`

	Serve       bool  `env:"QUEEN_SERVE" help:"Run a broker of this binary on free ports and a temporary data folder for as long as the load lasts."`
	DatabaseURL place `env:"QUEEN_DATABASE_URL" name:"database-url" placeholder:"URL" help:"PostgreSQL of the broker: for the baseline, and for its settings."`
	DataDir     place `env:"QUEEN_DATA_DIR" name:"data-dir" placeholder:"DIR" help:"Data folder of a running queen serve, instead of --database-url."`
	Connections int   `env:"QUEEN_CONNECTIONS" default:"8" placeholder:"N" help:"Connections of the baseline (${default})."`
	Row         int   `env:"QUEEN_ROW" default:"0" placeholder:"BYTES" help:"Bytes of each row of the baseline; 0 tries 64 KiB, 256 KiB and 1 MiB and takes the best."`

	// Of a broker that runs for the load, or of an engine in this process.
	child  *childBroker
	engine *ownEngine
	began  bench.Conditions

	discard int           // rounds before the first that counts
	turn    time.Duration // of a side, see bench.Plan; 0 for a whole round
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

// gcPercent makes the load collect its garbage less often than Go would: the
// processor belongs to what is measured. Producing 1 KB records takes the client 2 µs
// each instead of 3.5 with 50, for some 200 MB more.
const gcPercent = 300

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
func (c *benchRun) compare(p *process, mode string, a bench.Side, vs string, payload *bench.Payload, other func(string, *bench.Database) bench.Side) error {
	report, err := c.measure(p, mode, a, vs, payload, other)
	if report == nil {
		return err
	}
	if c.Output == "json" {
		return errors.Join(err, report.WriteJSON(p.stdout))
	}
	return errors.Join(err, report.WriteText(p.stdout))
}

// measure is compare without printing; there is no report where not even one
// round ended.
func (c *benchRun) measure(p *process, mode string, a bench.Side, vs string, payload *bench.Payload, other func(string, *bench.Database) bench.Side) (report *bench.Report, err error) {
	report = &bench.Report{Mode: mode, Conditions: c.began}
	report.Conditions.Rounds, report.Conditions.Duration = c.Rounds, c.Duration.String()
	if c.turn > 0 && c.turn < c.Duration {
		report.Conditions.Turn = c.turn.String()
	}
	plan := bench.Plan{Rounds: c.Rounds, Discard: c.discard, Duration: c.Duration, Turn: c.turn, Verify: c.Verify}

	db, folder, err := c.openDatabase(p.ctx, a == nil || vs == vsBaseline || vs == vsRows)
	if err != nil {
		return nil, err
	}
	var baseline *bench.Baseline
	if db != nil {
		defer func() { err = errors.Join(err, closeDatabase(p.ctx, db)) }()
		if err := report.Conditions.AskDatabase(p.ctx, db, folder); err != nil {
			return nil, err
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
		return nil, err
	}
	return report, err
}

// openDatabase finds the PostgreSQL under the broker. Without the baseline it is
// only asked for its settings, and only when named.
func (c *benchRun) openDatabase(ctx context.Context, needed bool) (*bench.Database, string, error) {
	url, named, dir := string(c.DatabaseURL), c.DataDir, ""
	if c.child != nil {
		named = place(c.child.dataDir)
	}
	if c.engine != nil {
		named = place(c.engine.dataDir)
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
