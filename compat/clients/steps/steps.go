// Package steps is what the Go programs of the client matrix share: it names
// steps, bounds them, prints one line for each and turns them into an exit code.
package steps

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// timeout bounds one step: generous, for a machine that does much else.
const timeout = 90 * time.Second

// Step is one thing a client does against the broker.
type Step struct {
	Name string
	Run  func(ctx context.Context) error
}

// Main runs steps in order, prints the client's version and a line for each step,
// and exits with 1 if any failed. A step is run even when one before it failed.
func Main(version string, all ...Step) {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: "+os.Args[0]+" HOST:PORT")
		os.Exit(2)
	}
	fmt.Println("version", version)
	code := 0
	for _, s := range all {
		start := time.Now()
		err := run(s)
		took := time.Since(start).Round(10 * time.Millisecond)
		if err != nil {
			code = 1
			fmt.Printf("FAIL %s (%s): %s\n", s.Name, took, strings.ReplaceAll(err.Error(), "\n", "; "))
		} else {
			fmt.Printf("PASS %s (%s)\n", s.Name, took)
		}
	}
	os.Exit(code)
}

func run(s Step) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("not done after %s", timeout))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			// A step whose predecessor failed may find nothing to work on.
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- s.Run(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // it knows better what it waited for
		return err
	case <-time.After(5 * time.Second):
		return context.Cause(ctx)
	}
}

// Version is that of a module this program was built with.
func Version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == module {
			return strings.TrimPrefix(d.Version, "v")
		}
	}
	return "unknown"
}

// Name makes a name that no earlier run used.
func Name(prefix string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + "-" + hex.EncodeToString(b[:])
}

// Wait looks until cond holds or ctx ends; the error of cond's last look says what was missing.
func Wait(ctx context.Context, what string, cond func() (bool, error)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := cond()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (last error: %w)", what, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
