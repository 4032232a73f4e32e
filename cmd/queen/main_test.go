package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// mainVar makes the test binary the product itself, for tests that need a process.
const mainVar = "QUEEN_TEST_MAIN"

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	if os.Getenv(mainVar) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func runQueen(args ...string) (code int, stdout, stderr string) {
	return runQueenOn("", args...)
}

// runQueenOn runs it with something on stdin.
func runQueenOn(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, log bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(stdin), &out, &log)
	return code, out.String(), log.String()
}

func TestHelpIsGolden(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, command := range append([]string{""}, commandNames(t)...) {
		args := append(strings.Fields(command), "--help")
		code, out, _ := runQueen(args...)
		if code != 0 {
			t.Errorf("queen %s: exit code %d, want 0", strings.Join(args, " "), code)
		}
		got.WriteString("$ queen " + strings.Join(args, " ") + "\n" + out + "\n")
	}
	const golden = "testdata/help.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("help has changed; look at it and run make golden:\n%s", got.String())
	}
}

// A command that speaks to a broker has variables for where it is and how to show
// answers, and no others: see clientFlags.
func TestEveryFlagHasAVariableAndHelp(t *testing.T) {
	t.Parallel()
	visit(t, func(node *kong.Node) {
		client := slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == "url" })
		for _, f := range node.Flags {
			if f.Name == "help" || f.Name == "version" {
				continue
			}
			want := "QUEEN_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			if client && f.Name != "url" && f.Name != "output" {
				if len(f.Envs) != 0 {
					t.Errorf("%s --%s: variables %v, want none", node.Path(), f.Name, f.Envs)
				}
			} else if len(f.Envs) != 1 || f.Envs[0] != want {
				t.Errorf("%s --%s: variables %v, want %s", node.Path(), f.Name, f.Envs, want)
			}
			if f.Help == "" {
				t.Errorf("%s --%s has no help", node.Path(), f.Name)
			}
		}
	})
}

func TestUsageErrorsNameTheMistake(t *testing.T) {
	t.Parallel()
	f := func(want string, args ...string) {
		t.Helper()
		code, out, log := runQueen(args...)
		if code != exitUsage || out != "" || !strings.Contains(log, want) {
			t.Errorf("queen %v: code %d, stdout %q, stderr %q; want code %d and %q", args, code, out, log, exitUsage, want)
		}
	}
	f("nosuch", "nosuch")
	f("see queen --help", "topic", "list")
	f("see queen queue --help", "queue")
	f("see queen push --help", "push")
	f(`no\x1bsuch`, "no\x1bsuch")
	f("--broker-id", "serve", "--broker-id=-1")
	f("--kafka-default-partitions", "serve", "--kafka-default-partitions=0")
	f("--kafka-default-partitions", "serve", "--kafka-default-partitions=11", "--kafka-max-partitions=10")
	f("--kafka-group-heartbeat", "serve", "--kafka-group-heartbeat=0s")
	f("--kafka-group-session", "serve", "--kafka-group-session=5s")
	f("--shutdown-timeout", "serve", "--shutdown-timeout=0s")
	f("--offsets-retention", "serve", "--offsets-retention=2000000h")
	f("log-level", "--log-level=loud", "version")
	f("queen COMMAND --FLAG", "--url=http://127.0.0.1:1", "queue", "list")
	f("--data-dir", "serve", "--data-dir=")
	f("--data-dir", "migrate", "--data-dir", "")
}

func TestVersionIsACommandAndAFlag(t *testing.T) {
	t.Parallel()
	code, want, log := runQueen("version")
	if code != 0 || log != "" || !strings.HasPrefix(want, "queen "+version+" ") {
		t.Fatalf("queen version: code %d, stdout %q, stderr %q", code, want, log)
	}
	for _, args := range [][]string{{"--version"}, {"serve", "--version"}} {
		if code, out, log := runQueen(args...); code != 0 || out != want || log != "" {
			t.Errorf("queen %v: code %d, stdout %q, stderr %q; want 0 and %q", args, code, out, log, want)
		}
	}
}

func TestMigrateMakesNoDatabase(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "q")
	code, out, log := runQueen("migrate", "--data-dir", dir)
	if code != exitFailed || out != "" || !strings.Contains(log, "--database-url") {
		t.Errorf("code %d, stdout %q, stderr %q; want a failure that asks for --database-url", code, out, log)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data folder: %v, want none made", err)
	}
}

// commandNames lists the paths of all commands, parents before children.
func commandNames(t *testing.T) []string {
	t.Helper()
	var names []string
	visit(t, func(node *kong.Node) {
		if node.Type == kong.CommandNode {
			names = append(names, strings.TrimPrefix(node.FullPath(), "queen "))
		}
	})
	return names
}

func visit(t *testing.T, each func(*kong.Node)) {
	t.Helper()
	parser, err := newParser(&commandLine{}, &bytes.Buffer{}, &bytes.Buffer{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	err = kong.Visit(parser.Model, func(v kong.Visitable, next kong.Next) error {
		switch n := v.(type) {
		case *kong.Application:
			each(n.Node)
		case *kong.Node:
			each(n)
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
}
