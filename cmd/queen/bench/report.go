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
	head := "round\tA MB/s\tA rec/s\tA p50 ms\tA p99 ms\tA client cores\t"
	if r.B != nil {
		head += "B MB/s\tB rec/s\tB p50 ms\tB p99 ms\tA/B\t"
	}
	fmt.Fprintln(t, head)
	for i := range r.A.Rounds {
		if r.B == nil {
			fmt.Fprintf(t, "%d\t%s\n", i+1, columns(r.A.Rounds[i], true))
		} else if r.Ratio != nil && i < len(r.Ratio.ThroughputPairs) {
			fmt.Fprintf(t, "%d\t%s%s%.3f\t\n", i+1, columns(r.A.Rounds[i], true), columns(r.B.Rounds[i], false), r.Ratio.ThroughputPairs[i])
		}
	}
	switch {
	case r.B == nil:
		fmt.Fprintf(t, "median\t%s\n", columns(r.A.Median, true))
	case r.Ratio != nil:
		fmt.Fprintf(t, "median\t%s%s%.3f\t\n", columns(r.A.Median, true), columns(r.B.Median, false), r.Ratio.Throughput)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if q := r.Ratio; q != nil {
		writeRatio(w, "throughput A/B", q.Throughput, q.ThroughputSpread)
		if q.P99 != nil {
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
	fmt.Fprintf(w, "%s  %.3f  (middle half %.3f to %.3f, all %.3f to %.3f)\n", what, median, s.Quartile1, s.Quartile3, s.Min, s.Max)
}

func columns(r Round, cores bool) string {
	p50, p99 := "-", "-"
	if r.LatencyMS != nil {
		p50, p99 = fmt.Sprintf("%.1f", r.LatencyMS.P50), fmt.Sprintf("%.1f", r.LatencyMS.P99)
	}
	s := fmt.Sprintf("%.1f\t%.0f\t%s\t%s\t", r.BytesPerSecond/1e6, r.RecordsPerSecond, p50, p99)
	if cores {
		s += fmt.Sprintf("%.2f\t", r.ClientCores)
	}
	return s
}

// lines are the conditions, a thought each.
func (c *Conditions) lines() []string {
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
	load := fmt.Sprintf("load        %s values of %d bytes", c.Payload, c.Size)
	add := func(format string, v any, is bool) {
		if is {
			load += fmt.Sprintf(", "+format, v)
		}
	}
	add("%d partitions", c.Partitions, c.Partitions > 0)
	add("%d clients", c.Clients, c.Clients > 0)
	add("%d per request", c.Batch, c.Batch > 0)
	add("acks=%s", c.Acks, c.Acks != "")
	add("compression %s", c.Compression, c.Compression != "")
	if c.Idempotent != nil {
		add("idempotent %t", *c.Idempotent, true)
	}
	if c.WindowSeconds != nil {
		add("deduplication window %d s", *c.WindowSeconds, true)
	}
	add("at most %d MiB under way", c.BufferedBytes>>20, c.BufferedBytes > 0)
	add("%d MB written first", c.FillBytes/1e6, c.FillBytes > 0)
	add("%d ids stored first", c.FillIDs, c.FillIDs > 0)
	add("%d repeated ids per request", c.Duplicates, c.Duplicates > 0)
	add("%s", c.Client, c.Client != "")
	lines = append(lines, load)
	if c.BaselineRow > 0 {
		line := fmt.Sprintf("baseline    %d connections, autocommit, one row of %d KiB per commit", c.BaselineConns, c.BaselineRow>>10)
		for i, t := range c.BaselineTried {
			line += fmt.Sprintf("%s %d KiB %.0f MB/s", [2]string{"; tried", ","}[min(i, 1)], t.Row>>10, t.BytesPerSecond/1e6)
		}
		lines = append(lines, line)
	}
	lines = append(lines, fmt.Sprintf("rounds      %d of %s each, sides in turn; %s", c.Rounds, c.Duration, orNone(c.Settle)))
	if c.PeakClientRSS > 0 {
		lines = append(lines, fmt.Sprintf("bench       at most %d MiB of memory", c.PeakClientRSS>>20))
	}
	return lines
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
