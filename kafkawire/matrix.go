package kafkawire

import (
	"fmt"
	"strings"
)

// Matrix is the table of requests as Markdown, for README.
func Matrix() string {
	var b strings.Builder
	b.WriteString("| key | request | versions |\n|---:|---|---|\n")
	for _, a := range table(Config{}.withDefaults()) {
		fmt.Fprintf(&b, "| %d | %s | %s", a.key, a.name, a.versions())
		if a.advertised != a.min {
			fmt.Fprintf(&b, " (advertised from %d)", a.advertised)
		}
		b.WriteString(" |\n")
	}
	return b.String()
}
