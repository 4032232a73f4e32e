//go:build java

package kafkanode_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"queenmq/compat"
	"queenmq/compat/broker"
	"queenmq/compat/kafkanode"
)

// The suite says what Apache Kafka does, so Apache Kafka passes it, whole.
func TestApacheKafkaPassesTheSuite(t *testing.T) {
	t.Parallel()
	n, err := kafkanode.Start(t.Context(), kafkanode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	report, err := compat.Run(t.Context(), compat.Options{Brokers: []string{n.Addr}, Timeout: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Cases {
		if c.Result != compat.Pass {
			t.Errorf("%s: %s: %s", c.Name, c.Result, c.Detail)
		}
	}
}

// tool runs a console tool and answers what it printed.
func tool(ctx context.Context, t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	cmd, err := kafkanode.Tool(ctx, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return output(t, cmd, stdin)
}

func output(t *testing.T, cmd *exec.Cmd, stdin string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// Apache Kafka's own console tools work against us: a topic is made, listed and
// deleted, ten thousand lines go through with keys and headers, and a group goes
// on where it stopped.
func TestConsoleToolsWorkAgainstQueen(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute) // a busy machine takes its time over 20 starts of Java
	t.Cleanup(cancel)
	p := broker.Temporary(t)
	at := []string{"--bootstrap-server", p.Kafka}
	run := func(stdin, name string, args ...string) string {
		t.Helper()
		return tool(ctx, t, stdin, name, append(at, args...)...)
	}
	run("", "kafka-topics", "--create", "--topic", "console", "--partitions", "1")
	if out := run("", "kafka-topics", "--list"); !strings.Contains("\n"+out, "\nconsole\n") {
		t.Errorf("topics: %q", out)
	}
	const n = 10_000
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "h1:one,h2:%d\tkey-%d\tline %d\n", i, i, i)
	}
	run(lines.String(), "kafka-console-producer", "--topic", "console", "--compression-codec", "lz4",
		"--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
	if out := run("", "kafka-get-offsets", "--topic", "console"); out != fmt.Sprintf("console:0:%d\n", n) {
		t.Errorf("offsets: %q", out)
	}
	for _, protocol := range []string{"classic", "consumer"} {
		half := func() string {
			t.Helper()
			return run("", "kafka-console-consumer", "--topic", "console", "--group", "console-"+protocol, "--from-beginning",
				"--max-messages", fmt.Sprint(n/2), "--timeout-ms", "240000", "--command-property", "group.protocol="+protocol,
				"--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
		}
		if got := half() + half(); got != lines.String() {
			t.Errorf("%s: %d bytes in, %d out through two members, one after the other", protocol, lines.Len(), len(got))
		}
		out := run("", "kafka-consumer-groups", "--describe", "--group", "console-"+protocol)
		if want := fmt.Sprintf("%d", n); strings.Count(out, want) != 2 { // the position, and the end
			t.Errorf("%s: positions are shown as %q", protocol, out)
		}
	}
	if out := run("", "kafka-topics", "--describe", "--topic", "console"); !strings.Contains(out, "PartitionCount: 1") {
		t.Errorf("described as %q", out)
	}
	run("", "kafka-topics", "--delete", "--topic", "console")
	if out := run("", "kafka-topics", "--list"); strings.Contains("\n"+out, "\nconsole\n") {
		t.Errorf("topics after delete: %q", out)
	}
	run("", "kafka-broker-api-versions")
	run("", "kafka-producer-perf-test", "--topic", "perf", "--num-records", "20000", "--record-size", "200", "--throughput", "-1")
	run("", "kafka-consumer-perf-test", "--topic", "perf", "--num-records", "20000")
}
