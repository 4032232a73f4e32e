package clients

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// timeout bounds one client, its preparation not counted.
const timeout = 10 * time.Minute

// Step is a line that a client printed.
type Step struct {
	Name    string
	Outcome string // PASS, FAIL or SKIP
	Detail  string
}

// Result is what became of one client.
type Result struct {
	Client  string
	Version string
	Steps   []Step
	// Took is the run without its preparation, Prepared the preparation.
	Took, Prepared time.Duration
	// Err says why the client as a whole failed, whatever its steps say.
	Err error
}

// Failed tells whether anything did: a step, the exit code, or that no step passed.
func (r Result) Failed() bool {
	return r.Err != nil || !slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Outcome == "PASS" }) ||
		slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Outcome == "FAIL" })
}

// Run prepares one client and runs it against the broker at addr. What it prints
// goes to log as well.
func Run(ctx context.Context, c Client, addr string, log io.Writer) Result {
	r := Result{Client: c.Name}
	r.Err = func() error {
		work, err := os.MkdirTemp("", "queen-clients-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(work) }() // what is left is in nobody's way
		out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "queenmq/compat/clients").Output()
		if err != nil {
			return fmt.Errorf("find the programs: %w", err)
		}
		start := time.Now()
		argv, env, err := c.prepare(ctx, kit{source: strings.TrimSpace(string(out)), work: work})
		r.Prepared = time.Since(start)
		if err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		start = time.Now()
		defer func() { r.Took = time.Since(start) }()
		return r.run(ctx, append(argv, addr), env, log)
	}()
	return r
}

func (r *Result) run(ctx context.Context, argv, env []string, log io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done after %s", timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	// A program may have started others: they end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fmt.Fprintf(log, "%s: %s\n", r.Client, lines.Text())
		r.read(lines.Text())
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// read takes in one line of a program's output.
func (r *Result) read(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "version":
		r.Version = rest
	case "PASS", "FAIL", "SKIP":
		name, detail, _ := strings.Cut(rest, " ")
		r.Steps = append(r.Steps, Step{Name: strings.TrimSuffix(name, ":"), Outcome: word, Detail: detail})
	}
}

// Table prints results, one line for each client and one for each step that did
// not pass.
func Table(w io.Writer, results []Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "client\tversion\tresult\tpassed\tskipped\tfailed\ttime")
	var more []string
	for _, r := range results {
		count := map[string]int{}
		for _, s := range r.Steps {
			count[s.Outcome]++
			if s.Outcome != "PASS" {
				more = append(more, fmt.Sprintf("%s: %s %s %s", r.Client, s.Outcome, s.Name, s.Detail))
			}
		}
		word := "pass"
		if r.Failed() {
			word = "FAIL"
		}
		if r.Err != nil {
			more = append(more, fmt.Sprintf("%s: %v", r.Client, r.Err))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", r.Client, r.Version, word,
			count["PASS"], count["SKIP"], count["FAIL"], r.Took.Round(100*time.Millisecond))
	}
	_ = t.Flush() // w says so itself
	for _, line := range more {
		fmt.Fprintln(w, line)
	}
}
