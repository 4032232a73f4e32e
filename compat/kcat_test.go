package compat

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kcat runs the stock client of librdkafka.
func kcat(ctx context.Context, t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(ctx, "kcat", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kcat %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// A hundred thousand lines go in and come out, in every codec, with their keys
// and headers.
func TestKcatRoundTrip(t *testing.T) {
	t.Parallel()
	p := shared(t)
	const n = 100_000
	var in, want bytes.Buffer
	for i := range n {
		value := fmt.Sprintf("line %d of %d, long enough to be worth compressing: %x", i, n, i*i)
		fmt.Fprintf(&in, "key-%d|%s\n", i, value)
		fmt.Fprintf(&want, "%d|key-%d|h1=one,h2=|%s\n", i, i, value)
	}
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, in.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 2*time.Minute)
			topic := "kcat-" + c.name
			kcat(ctx, t, "-P", "-q", "-b", p.Kafka, "-t", topic, "-p", "0", "-K", "|", "-z", c.name,
				"-H", "h1=one", "-H", "h2=", "-l", file)
			got := kcat(ctx, t, "-C", "-q", "-b", p.Kafka, "-t", topic, "-p", "0", "-o", "beginning", "-e",
				"-f", "%o|%k|%h|%s\n")
			if !bytes.Equal(got, want.Bytes()) {
				t.Errorf("came back changed: %s", firstDifference(got, want.Bytes()))
			}
		})
	}
}

func firstDifference(got, want []byte) string {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			return fmt.Sprintf("line %d is %q, want %q", i, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// kcat -G joins a group, and a second run goes on where the first stopped.
func TestKcatGroup(t *testing.T) {
	t.Parallel()
	p, ctx := shared(t), within(t, 2*time.Minute)
	const topic, group = "kcat-group", "kcat-readers"
	lines := func(from int) string {
		var b strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&b, "line %d\n", from+i)
		}
		return b.String()
	}
	for run := range 2 {
		want := lines(run * 1000)
		file := filepath.Join(t.TempDir(), "lines")
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		kcat(ctx, t, "-P", "-q", "-b", p.Kafka, "-t", topic, "-p", "0", "-l", file)
		got := kcat(ctx, t, "-q", "-b", p.Kafka, "-G", group, "-c", "1000",
			"-X", "auto.offset.reset=earliest", topic)
		if string(got) != want {
			t.Errorf("run %d: %s", run, firstDifference(got, []byte(want)))
		}
	}
}
