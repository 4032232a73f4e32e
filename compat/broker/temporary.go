package broker

import (
	"context"
	"time"
)

// TB is what these helpers need of a *testing.T.
type TB interface {
	Helper()
	Cleanup(f func())
	Context() context.Context
	TempDir() string
	Error(args ...any)
	Fatal(args ...any)
}

// TempDataDir is a data folder for the time of a test; a PostgreSQL left in it is ended.
func TempDataDir(t TB) string {
	t.Helper()
	dir, err := NewDataDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Discard(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// stopMax is more than a broker gives itself.
const stopMax = 40 * time.Second

// Temporary builds the binary and runs it for the time of a test, on a data folder of its own.
func Temporary(t TB) *Process {
	t.Helper()
	binary, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), Config{Binary: binary, DataDir: TempDataDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(stopMax); err != nil {
			t.Error(err)
		}
	})
	return p
}
