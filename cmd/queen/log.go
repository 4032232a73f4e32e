package main

import (
	"io"
	"log/slog"
)

// newLog writes to stderr; stdout is for answers. The parser has checked both words.
func newLog(w io.Writer, level, format string) *slog.Logger {
	var o slog.HandlerOptions
	var l slog.Level
	_ = l.UnmarshalText([]byte(level))
	o.Level = l
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, &o))
	}
	return slog.New(slog.NewTextHandler(w, &o))
}
