package main

import (
	"bytes"
	"context"
	"flag"
	"os"
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
	var out, log bytes.Buffer
	code = run(context.Background(), args, &out, &log)
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

func TestEveryFlagHasAVariableAndHelp(t *testing.T) {
	t.Parallel()
	visit(t, func(node *kong.Node) {
		for _, f := range node.Flags {
			if f.Name == "help" {
				continue
			}
			want := "QUEEN_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			if len(f.Envs) != 1 || f.Envs[0] != want {
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
	f("--broker-id", "serve", "--broker-id=-1")
	f("--kafka-default-partitions", "serve", "--kafka-default-partitions=0")
	f("--kafka-default-partitions", "serve", "--kafka-default-partitions=11", "--kafka-max-partitions=10")
	f("--shutdown-timeout", "serve", "--shutdown-timeout=0s")
	f("log-level", "--log-level=loud", "version")
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
