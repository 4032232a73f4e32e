package chaos

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"queenmq/compat/broker"
)

// queenBinary is built once for all tests of the package.
var queenBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "queen-binary-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	return broker.Build(context.Background(), dir)
})

var builtIn string

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		if err := os.RemoveAll(builtIn); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// start runs a broker until the end of the test, which kills what is left of it.
func start(t *testing.T, cfg broker.Config) *broker.Process {
	t.Helper()
	bin, err := queenBinary()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Binary = bin
	p, err := broker.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// timeout is a context of a test.
func timeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
