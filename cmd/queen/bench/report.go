package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is everything a run found, with its conditions.
type Report struct {
	Mode string `json:"mode"`
	Outcome
	Conditions Conditions `json:"conditions"`
}

// WriteJSON prints the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText prints the report for people.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "queen bench %s\n  A  %s\n", r.Mode, r.A.Name)
	if r.B != nil {
		fmt.Fprintf(w, "  B  %s\n", r.B.Name)
	}
	fmt.Fprintln(w)
	table := closedTable
	if r.A.Median.SentLateMS != nil {
		table = openTable
	}
	table.write(t, r)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if q := r.Ratio; q != nil {
		writeRatio(w, "throughput A/B", q.Throughput, q.ThroughputSpread)
		if q.P99 != nil {
			writeRatio(w, "p50 A/B       ", *q.P50, *q.P50Spread)
			writeRatio(w, "p99 A/B       ", *q.P99, *q.P99Spread)
		}
	}
	for _, s := range []*SideReport{&r.A, r.B} {
		if s != nil && s.Verified != nil {
			fmt.Fprintf(w, "verified       %d records of %s, count and checksum\n", s.Verified.Read, s.Name)
		}
	}
	fmt.Fprintln(w, "conditions")
	for _, line := range r.Conditions.lines() {
		if _, err := fmt.Fprintln(w, "  "+line); err != nil {
			return err
		}
	}
	return nil
}

func writeRatio(w io.Writer, what string, median float64, s Spread) {
	interval := ""
	if s.High95 > 0 {
		interval = fmt.Sprintf("95 %% %.3f to %.3f, ", s.Low95, s.High95)
	}
	fmt.Fprintf(w, "%s  %.3f  (%smiddle half %.3f to %.3f, all %.3f to %.3f)\n", what, median, interval, s.Quartile1, s.Quartile3, s.Min, s.Max)
}

// table says which numbers of a round are shown: of both sides, of the first
// alone, and which ratios.
type table struct {
	both, first []column
	ratios      []ratioColumn
}

type column struct {
	head string
	cell func(Round) string
}

type ratioColumn struct {
	head  string
	pairs func(*Ratio) []float64
	all   func(*Ratio) *float64
}

func latencyColumn(head string, of func(Round) *Latency, get func(*Latency) float64) column {
	return column{head, func(r Round) string {
		if l := of(r); l != nil {
			return fmt.Sprintf("%.1f", get(l))
		}
		return "-"
	}}
}

func answered(r Round) *Latency { return r.LatencyMS }

var (
	speedColumn   = column{"MB/s", func(r Round) string { return fmt.Sprintf("%.1f", r.BytesPerSecond/1e6) }}
	recordsColumn = column{"rec/s", func(r Round) string { return fmt.Sprintf("%.0f", r.RecordsPerSecond) }}
	p50Column     = latencyColumn("p50 ms", answered, func(l *Latency) float64 { return l.P50 })
	p99Column     = latencyColumn("p99 ms", answered, func(l *Latency) float64 { return l.P99 })
	p999Column    = latencyColumn("p99.9 ms", answered, func(l *Latency) float64 { return l.P999 })
	maxColumn     = latencyColumn("max ms", answered, func(l *Latency) float64 { return l.Max })
	lateColumn    = latencyColumn("sent late p99 ms", func(r Round) *Latency { return r.SentLateMS }, func(l *Latency) float64 { return l.P99 })
	coresColumn   = column{"client cores", func(r Round) string { return fmt.Sprintf("%.2f", r.ClientCores) }}

	// closedTable is for loads that go as fast as they can, openTable for a fixed rate.
	closedTable = table{
		both: []column{speedColumn, recordsColumn, p50Column, p99Column}, first: []column{coresColumn},
		ratios: []ratioColumn{{"A/B", func(q *Ratio) []float64 { return q.ThroughputPairs }, func(q *Ratio) *float64 { return &q.Throughput }}},
	}
	openTable = table{
		both: []column{recordsColumn, p50Column, p99Column, p999Column, maxColumn, lateColumn},
		ratios: []ratioColumn{
			{"p50 A/B", func(q *Ratio) []float64 { return q.P50Pairs }, func(q *Ratio) *float64 { return q.P50 }},
			{"p99 A/B", func(q *Ratio) []float64 { return q.P99Pairs }, func(q *Ratio) *float64 { return q.P99 }},
		},
	}
)

// write prints the rounds of a report, and their medians.
func (t table) write(w io.Writer, r *Report) {
	row := func(name string, cell func(side *SideReport, c column) string, ratio func(c ratioColumn) string) {
		fmt.Fprintf(w, "%s\t", name)
		for i, s := range []*SideReport{&r.A, r.B} {
			columns := t.both
			if i == 0 {
				columns = slices.Concat(t.both, t.first)
			}
			for _, c := range columns {
				if s != nil {
					fmt.Fprintf(w, "%s\t", cell(s, c))
				}
			}
		}
		for _, c := range t.ratios {
			if r.Ratio != nil {
				fmt.Fprintf(w, "%s\t", ratio(c))
			}
		}
		fmt.Fprintln(w)
	}
	row("round", func(s *SideReport, c column) string {
		if s == &r.A {
			return "A " + c.head
		}
		return "B " + c.head
	}, func(c ratioColumn) string { return c.head })
	complete := len(r.A.Rounds)
	if r.B != nil {
		complete = min(complete, len(r.B.Rounds))
	}
	for i := range complete {
		row(fmt.Sprint(i+1), func(s *SideReport, c column) string { return c.cell(s.Rounds[i]) }, func(c ratioColumn) string {
			if pairs := c.pairs(r.Ratio); i < len(pairs) {
				return fmt.Sprintf("%.3f", pairs[i])
			}
			return "-"
		})
	}
	row("median", func(s *SideReport, c column) string { return c.cell(s.Median) }, func(c ratioColumn) string {
		if v := c.all(r.Ratio); v != nil {
			return fmt.Sprintf("%.3f", *v)
		}
		return "-"
	})
}

// lines are the conditions, a thought each.
func (c *Conditions) lines() []string {
	load := fmt.Sprintf("load        %s values of %d bytes", c.Payload, c.Size)
	add := func(format string, v any, is bool) {
		if is {
			load += fmt.Sprintf(", "+format, v)
		}
	}
	add("%d partitions", c.Partitions, c.Partitions > 0)
	add("%d per request", c.Batch, c.Batch > 0)
	add("compression %s", c.Compression, c.Compression != "")
	if c.WindowSeconds != nil {
		add("deduplication window %d s", *c.WindowSeconds, true)
	}
	add("%d repeated ids per request", c.Duplicates, c.Duplicates > 0)
	if client := c.client(); client != "" {
		load += ", " + client
	}
	lines := append(c.common(), load)
	if c.BaselineRow > 0 {
		line := fmt.Sprintf("baseline    %d connections, autocommit, one row of %d KiB per commit", c.BaselineConns, c.BaselineRow>>10)
		for i, t := range c.BaselineTried {
			line += fmt.Sprintf("%s %d KiB %.0f MB/s", [2]string{"; tried", ","}[min(i, 1)], t.Row>>10, t.BytesPerSecond/1e6)
		}
		lines = append(lines, line)
	}
	if c.PeakClientRSS > 0 {
		lines = append(lines, fmt.Sprintf("bench       at most %d MiB of memory", c.PeakClientRSS>>20))
	}
	return lines
}

// common are the conditions of every load on this machine.
func (c *Conditions) common() []string {
	lines := []string{fmt.Sprintf("machine     %d cores, %s, %s, %s, load average before %s", c.Cores, c.Processor, c.System, c.Go, c.LoadAverage)}
	if len(c.PostgreSQL) > 0 {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(c.PostgreSQL)) {
			if name != "server_version" && c.PostgreSQL[name] != "" {
				all = append(all, name+"="+c.PostgreSQL[name])
			}
		}
		lines = append(lines, "postgresql  "+c.PostgreSQL["server_version"]+": "+strings.Join(all, " "))
	}
	if d := c.Disk; d != nil {
		lines = append(lines, fmt.Sprintf("disk        fsync p50 %.2f ms, p99 %.2f ms; sequential, synced each MiB: %.0f MB/s", d.FsyncP50MS, d.FsyncP99MS, d.WritePerSec/1e6))
	}
	turn := "sides in turn"
	if c.Turn != "" {
		turn += " of " + c.Turn + " within a round"
	}
	return append(lines, fmt.Sprintf("rounds      %d of %s each, %s; %s", c.Rounds, c.Duration, turn, orNone(c.Settle)))
}

// client says what the clients of a load do.
func (c *Conditions) client() string {
	var all []string
	add := func(format string, v any, is bool) {
		if is {
			all = append(all, fmt.Sprintf(format, v))
		}
	}
	add("%d records/s", c.Rate, c.Rate > 0)
	add("%d clients", c.Clients, c.Clients > 0)
	add("acks=%s", c.Acks, c.Acks != "")
	if c.Idempotent != nil {
		add("idempotent %t", *c.Idempotent, true)
	}
	add("linger %s", c.Linger, c.Linger != "")
	add("fetch of at least 1 byte after at most %s", c.FetchMaxWait, c.FetchMaxWait != "")
	add("at most %d MiB under way", c.BufferedBytes>>20, c.BufferedBytes > 0)
	add("%d MB written first", c.FillBytes/1e6, c.FillBytes > 0)
	add("ids %s", c.IDs, c.IDs != "")
	add("%d messages pushed first", c.FillMessages, c.FillMessages > 0)
	add("%d ids stored first", c.FillIDs, c.FillIDs > 0)
	add("%s", c.Client, c.Client != "")
	return strings.Join(all, ", ")
}

func orNone(s string) string {
	if s == "" {
		return "nothing settled between rounds"
	}
	return s
}

// Finish takes over what the sides know about themselves after a run.
func (r *Report) Finish(out Outcome, b *Baseline) {
	r.Outcome = out
	r.Conditions.PeakClientRSS = peakRSS()
	if b != nil {
		r.Conditions.BaselineRow, r.Conditions.BaselineTried, r.Conditions.BaselineConns = b.Row, b.tried, b.Connections
	}
}
