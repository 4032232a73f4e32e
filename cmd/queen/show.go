package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// table is rows under a head.
type table struct {
	head []string
	rows [][]string
	foot string // a line below; empty: none
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// cellMax bounds a cell that others follow; the last one of a row is written whole.
const cellMax = 60

// show writes an answer: the table for people, the JSON for programs.
func (c *clientFlags) show(p *process, answer []byte, t func() (*table, error)) error {
	if c.Output == "json" || c.Output == "auto" && !p.terminal {
		return p.writeJSON(answer)
	}
	shown, err := t()
	if err != nil {
		return err
	}
	_, err = io.WriteString(p.stdout, shown.text())
	return err
}

// writeJSON writes JSON: as it is, or, on a terminal, indented and with nothing in it
// that the terminal would obey.
func (p *process) writeJSON(text []byte) error {
	if p.terminal {
		var b bytes.Buffer
		if json.Indent(&b, text, "", "  ") == nil {
			text = []byte(harmlessJSON(b.String()))
		}
	}
	_, err := p.stdout.Write(append(bytes.TrimRight(text, "\n"), '\n'))
	return err
}

// text lays the table out; what a terminal would obey is spelled out.
func (t *table) text() string {
	width := make([]int, len(t.head))
	cells := append([][]string{t.head}, t.rows...)
	for r, row := range cells {
		clean := make([]string, len(row))
		for i, cell := range row {
			clean[i] = harmless(cell)
			if i < len(row)-1 {
				clean[i] = cut(clean[i], cellMax)
				width[i] = max(width[i], utf8.RuneCountInString(clean[i]))
			}
		}
		cells[r] = clean
	}
	var b strings.Builder
	for _, row := range cells {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	if t.foot != "" {
		b.WriteString(harmless(t.foot) + "\n")
	}
	return b.String()
}

// quoted is the beginning of a text inside a sentence.
func quoted(s string) string { return strconv.Quote(cut(s, cellMax)) }

func cut(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes-1]) + "…"
}

// harmless spells out what a terminal could take for a command (control characters,
// C1 included), what turns the direction of text round, and bytes that are no UTF-8.
func harmless(s string) string {
	return escapeRunes(s, func(b *strings.Builder, r rune, raw string) {
		if r == utf8.RuneError && len(raw) == 1 {
			fmt.Fprintf(b, `\x%02x`, raw[0])
			return
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	})
}

// harmlessLines does the same line by line.
func harmlessLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = harmless(l)
	}
	return strings.Join(lines, "\n")
}

// harmlessJSON does the same inside JSON text, which stays JSON: such characters
// occur in its strings alone, but for the line breaks of its layout.
func harmlessJSON(s string) string {
	return escapeRunes(s, func(b *strings.Builder, r rune, raw string) {
		switch {
		case r == '\n':
			b.WriteByte('\n')
		case r == utf8.RuneError && len(raw) == 1:
			b.WriteString(`\ufffd`)
		case r > 0xffff:
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(b, `\u%04x`, r)
		}
	})
}

// escapeRunes copies s, giving what is not to be shown to escape.
func escapeRunes(s string, escape func(b *strings.Builder, r rune, raw string)) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(s[:n])
		} else {
			escape(&b, r, s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// onTerminal tells whether a person reads what is written to w.
func onTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	if !is {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// valueText is a message's value in a cell: JSON as it is, other bytes in base64.
type valueText struct {
	Data       json.RawMessage `json:"data"`
	DataBase64 *string         `json:"dataBase64"`
	Tombstone  bool            `json:"tombstone"`
}

func (v *valueText) cell() string {
	switch {
	case v.Tombstone:
		return "(tombstone)"
	case v.DataBase64 != nil:
		return "base64:" + *v.DataBase64
	}
	return string(v.Data)
}

// idText is an id in a cell.
type idText struct {
	ID       *string `json:"transactionId"`
	IDBase64 string  `json:"transactionIdBase64"`
}

func (v *idText) cell() string {
	if v.ID != nil {
		return *v.ID
	}
	return "base64:" + v.IDBase64
}

func itoa[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// orDash is a text that may be missing.
func orDash(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}
