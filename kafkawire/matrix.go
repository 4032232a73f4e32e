package kafkawire

import (
	"fmt"
	"slices"
	"strings"
)

// matrixColumns is how many requests share a line of the matrix: README is short.
const matrixColumns = 3

// Matrix is the table of requests as Markdown, for README.
func Matrix() string {
	var b strings.Builder
	b.WriteString(strings.Repeat("| key | request | versions ", matrixColumns) + "|\n")
	b.WriteString(strings.Repeat("|---:|---|---", matrixColumns) + "|\n")
	for apis := range slices.Chunk(table(Config{}.withDefaults()), matrixColumns) {
		for _, a := range apis {
			fmt.Fprintf(&b, "| %d | %s | %s ", a.key, a.name, a.versions())
			if a.advertised != a.min {
				fmt.Fprintf(&b, "(advertised from %d) ", a.advertised)
			}
		}
		b.WriteString(strings.Repeat("| | | ", matrixColumns-len(apis)) + "|\n")
	}
	return b.String()
}
