package broker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config says how to start a broker.
type Config struct {
	// Binary is the queen executable; Build makes one.
	Binary string
	// DataDir is the data folder, with the database of the broker in it unless
	// DatabaseURL is given. NewDataDir makes one.
	DataDir string
	// DatabaseURL is an existing database to use; empty starts a PostgreSQL of its own.
	DatabaseURL string
	// Args are more flags of `queen serve`; they come last, so they win.
	Args []string
	// Env is more environment, NAME=value.
	Env []string
	// Log takes what the broker writes to stderr; nil keeps it for errors only.
	Log io.Writer
	// ReadyTimeout bounds the wait for the ready line; 0 means 60 s.
	ReadyTimeout time.Duration
}

// Process is a running broker.
type Process struct {
	// Kafka and HTTP are the addresses of the ready line, host:port.
	Kafka, HTTP string
	// Ready is the whole ready line, and ReadyAfter how long it took to come.
	Ready      string
	ReadyAfter time.Duration

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone and its output read
	out    output        // stdout
	log    output        // stderr
}

// output keeps what a process wrote.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Build compiles the binary into dir and answers its path. QUEEN_BINARY names one
// that is there already.
func Build(ctx context.Context, dir string) (string, error) {
	if path := os.Getenv("QUEEN_BINARY"); path != "" {
		return path, nil
	}
	path := dir + "/queen"
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "queenmq/cmd/queen").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build queen: %w\n%s", err, out)
	}
	return path, nil
}

// Start runs `queen serve` on free loopback ports and returns with the ready line.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	if cfg.ReadyTimeout == 0 {
		cfg.ReadyTimeout = 60 * time.Second
	}
	args := []string{"serve", "--kafka-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--data-dir", cfg.DataDir}
	if cfg.DatabaseURL != "" {
		args = append(args, "--database-url", cfg.DatabaseURL)
	}
	p := &Process{cmd: exec.Command(cfg.Binary, append(args, cfg.Args...)...), exited: make(chan struct{})}
	p.cmd.Env = os.Environ()
	if cfg.DatabaseURL != "" { // the tests' own PostgreSQL obeys this; beside a named one it is refused
		p.cmd.Env = slices.DeleteFunc(p.cmd.Env, func(v string) bool { return strings.HasPrefix(v, "QUEEN_POSTGRES_BIN=") })
	}
	p.cmd.Env = append(p.cmd.Env, cfg.Env...)
	p.cmd.Stderr = &p.log
	if cfg.Log != nil {
		p.cmd.Stderr = io.MultiWriter(&p.log, cfg.Log)
	}
	// Its own group: a signal to the tests is not one to the broker.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(p.cmd.SysProcAttr)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	start := time.Now()
	started, ready := make(chan error, 1), make(chan string, 1)
	go p.run(stdout, started, ready)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	select {
	case p.Ready = <-ready:
	case <-time.After(cfg.ReadyTimeout):
		err = fmt.Errorf("no ready line after %s", cfg.ReadyTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.ReadyAfter = time.Since(start)
	if err == nil {
		err = p.parseReady()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start broker: %w\n%s", err, p.log.String()), p.Kill())
	}
	return p, nil
}

// run starts the process, reads its stdout to the end, hands over the first
// line, and waits. It keeps its thread, for with that the process would end.
func (p *Process) run(stdout io.Reader, started chan<- error, ready chan<- string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	r := bufio.NewReader(io.TeeReader(stdout, &p.out))
	line, _ := r.ReadString('\n') // what ends without a line is reported as it is
	ready <- strings.TrimSpace(line)
	_, _ = io.Copy(io.Discard, r)
	_ = p.cmd.Wait() // the state is in p.cmd.ProcessState
	close(p.exited)
}

// parseReady reads `ready kafka=HOST:PORT http=HOST:PORT …`.
func (p *Process) parseReady() error {
	rest, ok := strings.CutPrefix(p.Ready, "ready ")
	if !ok {
		return fmt.Errorf("%q is not a ready line", p.Ready)
	}
	for _, field := range strings.Fields(rest) {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "kafka":
			p.Kafka = value
		case "http":
			p.HTTP = value
		}
	}
	if p.Kafka == "" || p.HTTP == "" {
		return fmt.Errorf("%q names no kafka and http address", p.Ready)
	}
	return nil
}

// PID is the broker's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Stdout is everything it has written there, the ready line included.
func (p *Process) Stdout() string { return p.out.String() }

// Log is everything it has written to stderr.
func (p *Process) Log() string { return p.log.String() }

// Kill ends the process the hard way (kill -9) and waits until it is gone. Its
// PostgreSQL, if it had one, is not touched.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Signal sends a signal to the broker alone.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Stop asks the process to end (SIGTERM) and waits. An exit code other than 0,
// or none in time, is an error; the process is gone in any case.
func (p *Process) Stop(timeout time.Duration) error {
	select {
	case <-p.exited:
		return fmt.Errorf("the broker had ended before: %s\n%s", p.cmd.ProcessState, p.log.String())
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(fmt.Errorf("stop broker: %w", err), p.Kill())
	}
	select {
	case <-p.exited:
	case <-time.After(timeout):
		return errors.Join(fmt.Errorf("the broker had not ended %s after SIGTERM\n%s", timeout, p.log.String()), p.Kill())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the broker ended with code %d after SIGTERM\n%s", code, p.log.String())
	}
	return nil
}
