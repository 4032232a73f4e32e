package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Cell is one load of a table: what was compared, and the outcome.
type Cell struct {
	Load        string `json:"load"` // produce, consume or e2e
	Size        int    `json:"size"`
	Partitions  int    `json:"partitions"`
	Compression string `json:"compression"`
	// Flush says when Apache Kafka syncs what it appends.
	Flush  string  `json:"flush"`
	Report *Report `json:"report"`
}

// Table is many loads on the same two brokers.
type Table struct {
	Mode  string `json:"mode"`
	Cells []Cell `json:"cells"`
}

// WriteJSON prints the table for programs.
func (t *Table) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(t)
}

// WriteMarkdown prints the table, and below it the conditions of all loads.
func (t *Table) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| load | record | partitions | compression | Apache Kafka syncs | A | B | A/B (middle half) |\n")
	b.WriteString("|---|---:|---:|---|---|---:|---:|---:|\n")
	for _, c := range t.Cells {
		fmt.Fprintf(&b, "| %s | %d B | %d | %s | %s | %s | %s | %s |\n", c.Load, c.Size, c.Partitions, c.Compression, c.Flush,
			c.side(&c.Report.A), c.side(c.Report.B), c.ratio())
	}
	if len(t.Cells) > 0 {
		r := t.Cells[0].Report
		fmt.Fprintf(&b, "\nA %s\nB %s\n", r.A.Name, r.B.Name)
		for _, line := range r.Conditions.common() {
			b.WriteString(line + "\n")
		}
		b.WriteString(t.disks())
		said := make(map[string]bool)
		for _, c := range t.Cells {
			line := fmt.Sprintf("%s: %s values, %s\n", c.Load, c.Report.Conditions.Payload, c.Report.Conditions.client())
			if !said[line] {
				said[line] = true
				b.WriteString(line)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// disks says how the disk, looked at before each load, changed during the run.
func (t *Table) disks() string {
	var fsync, write []float64
	for _, c := range t.Cells {
		if d := c.Report.Conditions.Disk; d != nil {
			fsync, write = append(fsync, d.FsyncP50MS), append(write, d.WritePerSec/1e6)
		}
	}
	if len(fsync) < 2 {
		return ""
	}
	return fmt.Sprintf("all loads   fsync p50 %.2f to %.2f ms, sequential %.0f to %.0f MB/s\n",
		slices.Min(fsync), slices.Max(fsync), slices.Min(write), slices.Max(write))
}

func (c *Cell) side(s *SideReport) string {
	if l := s.Median.LatencyMS; c.Load == "e2e" && l != nil {
		return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", l.P50, l.P99)
	}
	if s.Median.BytesPerSecond < 10e6 {
		return fmt.Sprintf("%.1f MB/s", s.Median.BytesPerSecond/1e6)
	}
	return fmt.Sprintf("%.0f MB/s", s.Median.BytesPerSecond/1e6)
}

func (c *Cell) ratio() string {
	q := c.Report.Ratio
	of := func(median float64, s Spread) string {
		return fmt.Sprintf("%.2f (%.2f to %.2f)", median, s.Quartile1, s.Quartile3)
	}
	if c.Load == "e2e" && q.P99 != nil {
		return "p50 " + of(*q.P50, *q.P50Spread) + ", p99 " + of(*q.P99, *q.P99Spread)
	}
	return of(q.Throughput, q.ThroughputSpread)
}
