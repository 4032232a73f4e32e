package compat

import (
	"fmt"
	"strings"
)

var costColumns = []string{"step", "load", "msg/s", "broker µs/msg", "database µs/msg", "p50 ms", "p99 ms", "broker RSS MB", ""}

// costTable is a report in Markdown.
type costTable struct {
	title    string
	rows     [][]string
	progress func(...any) // nil: none is told
}

func (c *costTable) add(cells ...string) {
	c.rows = append(c.rows, cells)
	if c.progress != nil {
		c.progress(strings.Join(cells, " | "))
	}
}

// String is the table. Of what is idle the processor columns are hundredths of a core.
func (c *costTable) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| %s |\n|---|---|%s\n", c.title, strings.Join(costColumns, " | "), strings.Repeat("---:|", len(costColumns)-2))
	for _, r := range c.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
	}
	return b.String()
}
