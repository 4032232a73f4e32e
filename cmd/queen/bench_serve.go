package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

const (
	childStart = 60 * time.Second
	childStop  = 40 * time.Second // more than a broker's own --shutdown-timeout
)

var readyLine = regexp.MustCompile(`^ready kafka=(\S+) http=(\S+) `)

// childBroker is a `queen serve` of this binary that lives as long as a load.
type childBroker struct {
	kafka, http string
	dataDir     string

	folder string // removed at the end
	cmd    *exec.Cmd
	exited chan error
}

// newLoadFolder makes a temporary folder that the user who runs PostgreSQL gets through.
func newLoadFolder() (string, error) {
	dir, err := os.MkdirTemp("", "queen-bench-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// startBroker starts it on free ports and a new data folder, and waits for its
// ready line.
func startBroker(ctx context.Context) (_ *childBroker, err error) {
	b := &childBroker{exited: make(chan error, 1)}
	if b.folder, err = newLoadFolder(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	b.dataDir = filepath.Join(b.folder, "data")
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b.cmd = exec.CommandContext(context.WithoutCancel(ctx), self, "--log-level=warn", "serve", "--data-dir", b.dataDir, "--kafka-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0")
	b.cmd.Stderr = os.Stderr
	// Apart from the terminal's interrupt: we stop it, after our own cleaning up.
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	line := make(chan string, 1)
	go func() {
		first, _ := bufio.NewReader(out).ReadString('\n') // no line is told below
		line <- first
		_, _ = io.Copy(io.Discard, out)
		b.exited <- b.cmd.Wait()
	}()
	timeout := time.NewTimer(childStart)
	defer timeout.Stop()
	select {
	case first := <-line:
		m := readyLine.FindStringSubmatch(first)
		if m == nil {
			return nil, errors.New("the broker did not get ready; it says why above")
		}
		b.kafka, b.http = m[1], m[2]
		return b, nil
	case <-timeout.C:
		return nil, fmt.Errorf("the broker did not get ready within %s", childStart)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// stop ends the broker, by force when it does not end by itself, and removes
// its folder.
func (b *childBroker) stop() error {
	var err error
	if b.cmd != nil && b.cmd.Process != nil {
		_ = b.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
		timeout := time.NewTimer(childStop)
		defer timeout.Stop()
		select {
		case err = <-b.exited:
		case <-timeout.C:
			err = fmt.Errorf("the broker did not stop within %s and was killed", childStop)
			_ = b.cmd.Process.Kill()
			<-b.exited
		}
		if err != nil {
			err = fmt.Errorf("stop broker: %w", err)
		}
	}
	return errors.Join(err, os.RemoveAll(b.folder))
}
