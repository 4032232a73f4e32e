package compat

import (
	"context"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Case is one behaviour of Apache Kafka, shown against a running broker.
type Case struct {
	// Name is subject/behaviour, such as "produce/resend-answers-original-offset".
	Name string
	// Run shows the behaviour or fails t. It returns when ctx ends.
	Run func(ctx context.Context, t *T)
}

// Outcome is what a case came to.
type Outcome string

// The outcomes of a case. Skip means that the broker does not offer what the
// case is about (it is not advertised), which is no failure.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// Result is the outcome of one case.
type Result struct {
	Name   string  `json:"name"`
	Result Outcome `json:"result"`
	MS     int64   `json:"ms"`
	// Detail is why it failed or was skipped; for a pass, what it measured, if anything.
	Detail string `json:"detail"`
}

// Report is the outcome of a run, in the order of Cases.
type Report struct {
	Cases []Result `json:"cases"`
}

// Failed tells whether any case failed.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Cases, func(c Result) bool { return c.Result == Fail })
}

// Options says what to run, against what.
type Options struct {
	// Brokers are the addresses to begin with, host:port.
	Brokers []string
	// Filter is a regular expression on case names; empty runs all.
	Filter string
	// Timeout bounds each case; 0 means 90 s.
	Timeout time.Duration
	// Parallel is how many cases run at once; 0 means 4. They share nothing but
	// the broker: each has topics and groups of its own.
	Parallel int
	// Each, if set, is called with every result as it comes, one at a time.
	Each func(Result)
}

func (o Options) withDefaults() Options {
	if o.Timeout == 0 {
		o.Timeout = 90 * time.Second
	}
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	return o
}

func (o Options) validate() error {
	if len(o.Brokers) == 0 {
		return fmt.Errorf("compat: no brokers given")
	}
	if o.Timeout < 0 {
		return fmt.Errorf("compat: timeout %s is negative", o.Timeout)
	}
	if o.Parallel < 0 {
		return fmt.Errorf("compat: parallel %d is negative", o.Parallel)
	}
	return nil
}

// Cases answers the whole suite.
func Cases() []Case {
	return slices.Concat(versionCases, connCases, produceCases, idempotenceCases, fetchCases,
		sessionCases, offsetCases, groupCases, consumerGroupCases, adminCases, configCases, compactionCases,
		partitionCases, inspectCases, nameCases)
}

// Run runs the cases that Options selects and reports on each. The error is
// about the options, the broker being out of reach or the end of ctx, never about a case.
func Run(ctx context.Context, o Options) (Report, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return Report{}, err
	}
	filter, err := regexp.Compile(o.Filter)
	if err != nil {
		return Report{}, fmt.Errorf("compat: filter: %w", err)
	}
	cases := slices.DeleteFunc(Cases(), func(c Case) bool { return !filter.MatchString(c.Name) })
	if len(cases) == 0 { // a run of nothing would be a run in which nothing failed
		return Report{}, fmt.Errorf("compat: no case's name matches %q; queen compat --list shows them", o.Filter)
	}
	if err := reach(ctx, o.Brokers); err != nil {
		return Report{}, err
	}
	report := Report{Cases: make([]Result, len(cases))}
	var wg sync.WaitGroup
	var each sync.Mutex
	turns := make(chan struct{}, o.Parallel)
	for i, c := range cases {
		if turns <- struct{}{}; ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-turns }()
			r := RunCase(ctx, o, c)
			report.Cases[i] = r
			if o.Each != nil {
				each.Lock()
				defer each.Unlock()
				o.Each(r)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("compat: interrupted: %w", context.Cause(ctx))
	}
	return report, nil
}

// RunCase runs one case.
func RunCase(ctx context.Context, o Options, c Case) Result {
	o = o.withDefaults()
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not finished after %s", o.Timeout))
	defer cancel()
	t := &T{ctx: ctx, brokers: o.Brokers}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.finish()
		defer func() {
			// Fatalf and Skipf end the case with stopped; anything else is a bug
			// of the case and its failure.
			if p := recover(); p != nil && p != (stopped{}) {
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		c.Run(ctx, t)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Errorf("%v", context.Cause(ctx))
		select {
		case <-done:
		case <-time.After(cleanupMax):
			t.Errorf("nor %s later", cleanupMax)
		}
	}
	return t.result(c.Name, time.Since(start))
}

// reach waits a moment for one of the brokers to answer, so that a wrong
// address is one clear error and not fifty failed cases.
func reach(ctx context.Context, brokers []string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("compat: %w", err)
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return fmt.Errorf("compat: no broker answers at %s: %w", strings.Join(brokers, ", "), err)
	}
	return nil
}
