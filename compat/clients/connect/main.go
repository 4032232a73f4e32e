// Command connect-client is the Kafka Connect row of the client matrix: workers in
// distributed mode, whose connectors, positions and states are in compacted topics
// of the broker, copy a file into a topic and the topic into another file. CLASSPATH
// names the worker's jars.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"steps"
	"strings"
	"syscall"
	"time"
)

const lines = 300

// program is what the steps share.
type program struct {
	broker, dir, name string
	workers           []*worker
	written           strings.Builder // what is in the source file
}

func main() {
	p := &program{name: steps.Name("connect")}
	if len(os.Args) == 2 {
		p.broker = os.Args[1]
	}
	var err error
	if p.dir, err = os.MkdirTemp("", "queen-connect-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	version := "unknown"
	if m := regexp.MustCompile(`connect-runtime-([0-9.]+)\.jar`).FindStringSubmatch(jars()); m != nil {
		version = m[1]
	}
	steps.Main(version,
		steps.Step{Name: "start-worker", Run: p.startWorker},
		steps.Step{Name: "file-to-file", Run: p.fileToFile},
		steps.Step{Name: "second-worker", Run: p.secondWorker},
		steps.Step{Name: "first-worker-killed", Run: p.firstWorkerKilled},
		steps.Step{Name: "all-workers-restarted", Run: p.allRestarted},
		steps.Step{Name: "offsets-and-reset", Run: p.offsets},
		steps.Step{Name: "delete", Run: p.remove},
	)
}

// jars lists the jars of the class path, whose last element may be a wildcard.
func jars() string {
	names, _ := filepath.Glob(filepath.Join(filepath.Dir(os.Getenv("CLASSPATH")), "*.jar"))
	return strings.Join(names, "\n")
}

// worker is one Connect process.
type worker struct {
	cmd  *exec.Cmd
	url  string
	log  bytes.Buffer
	done chan struct{}
}

const properties = `bootstrap.servers=%[1]s
group.id=%[2]s
config.storage.topic=%[2]s-configs
offset.storage.topic=%[2]s-offsets
status.storage.topic=%[2]s-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=5
status.storage.partitions=3
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.flush.interval.ms=1000
session.timeout.ms=10000
heartbeat.interval.ms=1000
rebalance.timeout.ms=20000
scheduled.rebalance.max.delay.ms=1000
plugin.discovery=hybrid_warn
listeners=http://%[3]s
`

// start runs a worker and waits until it knows the group's connectors.
func (p *program) start(ctx context.Context) (*worker, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	_ = l.Close() // only its number was wanted
	file := filepath.Join(p.dir, strings.ReplaceAll(addr, ":", "-")+".properties")
	if err := os.WriteFile(file, fmt.Appendf(nil, properties, p.broker, p.name, addr), 0o600); err != nil {
		return nil, err
	}
	w := &worker{url: "http://" + addr, done: make(chan struct{})}
	w.cmd = exec.Command("java", "-XX:TieredStopAtLevel=1", "-Xmx384m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"org.apache.kafka.connect.cli.ConnectDistributed", file)
	w.cmd.Stdout, w.cmd.Stderr = &w.log, &w.log
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = w.cmd.Wait() // its state is in ProcessState
		close(w.done)
	}()
	err = steps.Wait(ctx, "the worker answers", func() (bool, error) {
		select {
		case <-w.done:
			return false, fmt.Errorf("it ended: %s", tail(w.log.String()))
		default:
		}
		_, err := w.call(ctx, http.MethodGet, "/connectors", nil)
		return err == nil, err
	})
	return w, err
}

func tail(s string) string { return s[max(0, len(s)-600):] }

// end ends a worker by a signal; one that does not go by itself is killed.
func (w *worker) end(s syscall.Signal) {
	_ = w.cmd.Process.Signal(s) // it may be gone
	select {
	case <-w.done:
	case <-time.After(30 * time.Second):
		_ = w.cmd.Process.Kill()
		<-w.done
	}
}

func (w *worker) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, tail(string(got)))
	}
	return got, err
}

func (p *program) startWorker(ctx context.Context) error {
	w, err := p.start(ctx)
	if w != nil {
		p.workers = append(p.workers, w)
	}
	return err
}

func (p *program) source() string { return filepath.Join(p.dir, "source.txt") }
func (p *program) sink() string   { return filepath.Join(p.dir, "sink.txt") }

// copied appends lines to the source and waits for them at the end of the sink.
func (p *program) copied(ctx context.Context) error {
	f, err := os.OpenFile(p.source(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "line %d behind %d bytes\n", i, p.written.Len())
	}
	p.written.WriteString(b.String())
	if _, err := f.WriteString(b.String()); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	want := p.written.String()
	return steps.Wait(ctx, "the sink has what the source has", func() (bool, error) {
		got, err := os.ReadFile(p.sink())
		if err != nil {
			return false, err
		}
		// At least once: a worker that was killed may copy some lines again.
		return distinct(string(got)) == want, fmt.Errorf("the source has %d bytes, the sink %d", len(want), len(got))
	})
}

// distinct drops lines that were there before; no line is written twice.
func distinct(s string) string {
	seen := map[string]bool{}
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !seen[line] {
			seen[line] = true
			b.WriteString(line)
		}
	}
	return b.String()
}

func (p *program) fileToFile(ctx context.Context) error {
	connectors := map[string]map[string]string{
		"source": {
			"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1",
			"file": p.source(), "topic": p.name + "-lines",
		},
		"sink": {
			"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1",
			"file": p.sink(), "topics": p.name + "-lines",
		},
	}
	for name, config := range connectors {
		if _, err := p.workers[0].call(ctx, http.MethodPut, "/connectors/"+p.name+"-"+name+"/config", config); err != nil {
			return err
		}
	}
	return p.copied(ctx)
}

// running waits until both connectors and their tasks run, as a worker tells it.
func (p *program) running(ctx context.Context, w *worker) error {
	return steps.Wait(ctx, "all connectors run", func() (bool, error) {
		b, err := w.call(ctx, http.MethodGet, "/connectors?expand=status", nil)
		if err != nil {
			return false, err
		}
		return strings.Count(string(b), `"RUNNING"`) == 4, fmt.Errorf("they are %s", b)
	})
}

func (p *program) secondWorker(ctx context.Context) error {
	if err := p.startWorker(ctx); err != nil {
		return err
	}
	if err := p.running(ctx, p.workers[1]); err != nil {
		return err
	}
	return p.copied(ctx)
}

func (p *program) firstWorkerKilled(ctx context.Context) error {
	p.workers[0].end(syscall.SIGKILL)
	if err := p.copied(ctx); err != nil {
		return err
	}
	return p.running(ctx, p.workers[1])
}

// allRestarted has a new worker find connectors and positions in the topics alone.
func (p *program) allRestarted(ctx context.Context) error {
	p.workers[1].end(syscall.SIGTERM)
	p.workers = nil
	if err := p.startWorker(ctx); err != nil {
		return err
	}
	if err := p.running(ctx, p.workers[0]); err != nil {
		return err
	}
	return p.copied(ctx)
}

func (p *program) offsets(ctx context.Context) error {
	w, path := p.workers[0], "/connectors/"+p.name+"-sink"
	want := fmt.Sprintf(`"kafka_offset":%d`, strings.Count(p.written.String(), "\n"))
	if err := steps.Wait(ctx, "the sink's position is told", func() (bool, error) {
		b, err := w.call(ctx, http.MethodGet, path+"/offsets", nil)
		var n int
		if m := regexp.MustCompile(`"kafka_offset":(\d+)`).FindSubmatch(b); m != nil {
			_, _ = fmt.Sscan(string(m[1]), &n) // digits
		}
		// A source that was killed may have written some lines twice.
		return n >= strings.Count(p.written.String(), "\n"), fmt.Errorf("it is %s, want %s: %w", b, want, err)
	}); err != nil {
		return err
	}
	if _, err := w.call(ctx, http.MethodPut, path+"/stop", nil); err != nil {
		return err
	}
	// The group must be empty before its positions may go.
	return steps.Wait(ctx, "positions are reset", func() (bool, error) {
		_, err := w.call(ctx, http.MethodDelete, path+"/offsets", nil)
		return err == nil, err
	})
}

func (p *program) remove(ctx context.Context) error {
	w := p.workers[0]
	for _, name := range []string{"source", "sink"} {
		if _, err := w.call(ctx, http.MethodDelete, "/connectors/"+p.name+"-"+name, nil); err != nil {
			return err
		}
	}
	err := steps.Wait(ctx, "no connectors are left", func() (bool, error) {
		b, err := w.call(ctx, http.MethodGet, "/connectors", nil)
		return string(b) == "[]", fmt.Errorf("there are %s: %w", b, err)
	})
	w.end(syscall.SIGTERM)
	if err != nil {
		return err
	}
	return os.RemoveAll(p.dir)
}
