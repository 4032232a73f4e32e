// Command run runs tests on each major version of PostgreSQL, for `make postgres-majors`.
//
//	run [-majors '14 18'] -- ARG…   `go test ARG…` on each, in turn
//	run -majors 18 bin              print the folder of its programs, for QUEEN_POSTGRES_BIN
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"queenmq/compat/pgmajors"
)

// needClients are the tests that call pg_dump, psql or pg_basebackup, which the archives lack.
const needClients = `^TestRestoredDatabaseIsAnotherOne$/^(database|schema)|^TestFailoverLosesNothingThatWasAcknowledged$`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	list := flags.String("majors", "", "versions, as '14 18'; all when empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	majors := strings.FieldsFunc(*list, func(r rune) bool { return r == ' ' || r == ',' })
	if len(majors) == 0 {
		majors = pgmajors.Majors()
	}
	var failed []string
	for _, major := range majors {
		bin, err := pgmajors.Binaries(ctx, major)
		if err != nil {
			return err
		}
		if slices.Equal(flags.Args(), []string{"bin"}) {
			fmt.Println(bin)
			continue
		}
		fmt.Printf("== PostgreSQL %s\n", filepath.Base(filepath.Dir(bin)))
		if err := test(ctx, bin, flags.Args()); err != nil {
			if ctx.Err() != nil {
				return err
			}
			failed = append(failed, major)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed on PostgreSQL %s", strings.Join(failed, ", "))
	}
	return nil
}

// test runs go test with all servers of the tests, and of brokers they start, on bin.
func test(ctx context.Context, bin string, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: run [-majors '14 18'] (bin | -- ARG… of go test)")
	}
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-count=1", "-skip", needClients}, args)...)
	cmd.Env = append(os.Environ(), "QUEEN_POSTGRES_BIN="+bin)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
