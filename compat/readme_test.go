package compat

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// readmeBlocks are the fenced blocks of README of one kind, in order.
func readmeBlocks(t *testing.T, kind string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, rest := range strings.Split(string(b), "```"+kind+"\n")[1:] {
		block, _, ok := strings.Cut(rest, "```")
		if !ok {
			t.Fatalf("a block of kind %s does not end", kind)
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// TestReadmeDoesWhatItSays runs README's commands, in order, in one folder, and
// compares what they print with what README says they print.
func TestReadmeDoesWhatItSays(t *testing.T) {
	t.Parallel()
	commands, outputs := readmeBlocks(t, "sh"), readmeBlocks(t, "output")
	if len(commands) == 0 || len(commands) != len(outputs) {
		t.Fatalf("%d blocks of commands and %d of output", len(commands), len(outputs))
	}
	p := shared(t)
	binary, err := queenBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i, block := range commands {
		block = strings.ReplaceAll(block, "127.0.0.1:9092", p.Kafka)
		block = strings.ReplaceAll(block, "127.0.0.1:6632", p.HTTP)
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", block)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "QUEEN_URL=http://"+p.HTTP)
		got, err := cmd.CombinedOutput()
		if err != nil || string(got) != outputs[i] {
			t.Fatalf("block %d: %v\n%s\nprinted\n%s\nREADME says\n%s", i+1, err, block, got, outputs[i])
		}
	}
}

func TestReadmeIsShortAndListsTheRequestsServed(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n > 200 {
		t.Errorf("README has %d lines, at most 200", n)
	}
	matrix, err := os.ReadFile(filepath.Join("..", "kafkawire", "testdata", "matrix.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "<!-- matrix -->\n"+string(matrix)+"<!-- /matrix -->") {
		t.Error("README's matrix is not kafkawire/testdata/matrix.md: run make readme")
	}
}
