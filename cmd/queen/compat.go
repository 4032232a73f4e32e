package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"queenmq/compat"
)

type compatCommand struct {
	Brokers  []string      `env:"QUEEN_BROKERS" default:"127.0.0.1:9092" placeholder:"HOST:PORT" help:"Kafka addresses to begin with. Any broker will do, Apache Kafka too."`
	Filter   string        `env:"QUEEN_FILTER" placeholder:"REGEXP" help:"Run only the cases whose name matches."`
	Timeout  time.Duration `env:"QUEEN_TIMEOUT" default:"90s" help:"Longest time for one case."`
	Parallel int           `env:"QUEEN_PARALLEL" default:"4" help:"Cases that run at once."`
	Output   string        `env:"QUEEN_OUTPUT" short:"o" default:"text" enum:"text,json" help:"What to print: ${enum}."`
	List     bool          `env:"QUEEN_LIST" help:"Print the names of the cases and exit."`
}

// Validate refuses what no run could mean.
func (c *compatCommand) Validate() error {
	switch {
	case c.Timeout <= 0:
		return fmt.Errorf("--timeout=%s: want more than 0", c.Timeout)
	case c.Parallel < 1:
		return fmt.Errorf("--parallel=%d: want 1 or more", c.Parallel)
	}
	return nil
}

// errCompat is what a run with a failed case comes to; the report says the rest.
var errCompat = errors.New("not compatible: a case failed")

// Run prints the report and fails if a case did. Topics and groups it makes on
// the broker begin with "compat-"; topics are deleted again.
func (c *compatCommand) Run(p *process) error {
	if c.List {
		for _, k := range compat.Cases() {
			fmt.Fprintln(p.stdout, k.Name)
		}
		return nil
	}
	o := compat.Options{Brokers: c.Brokers, Filter: c.Filter, Timeout: c.Timeout, Parallel: c.Parallel}
	if c.Output == "text" {
		o.Each = func(r compat.Result) { fmt.Fprint(p.stdout, resultLine(r)) }
	}
	report, err := compat.Run(p.ctx, o)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		if err := json.NewEncoder(p.stdout).Encode(report); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	} else if _, err := fmt.Fprintln(p.stdout, summary(report)); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if report.Failed() {
		return errCompat
	}
	return nil
}

// resultLine is one case for people: the reasons of a failure on lines of their own.
func resultLine(r compat.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-4s %7.2fs  %s", r.Result, float64(r.MS)/1000, r.Name)
	switch {
	case r.Detail == "":
	case r.Result == compat.Fail:
		b.WriteString("\n        " + strings.ReplaceAll(r.Detail, "\n", "\n        "))
	default:
		b.WriteString("  (" + r.Detail + ")")
	}
	b.WriteByte('\n')
	return b.String()
}

func summary(r compat.Report) string {
	n := make(map[compat.Outcome]int)
	for _, c := range r.Cases {
		n[c.Result]++
	}
	return fmt.Sprintf("%d passed, %d failed, %d not offered", n[compat.Pass], n[compat.Fail], n[compat.Skip])
}
