package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"queenmq/compat/broker"
)

// stepper is a worker that makes one message into another, step by step: it pushes
// an input, pops it, and in one transaction completes it, pushes its output and
// counts. It repeats what it was told nothing of, at whichever broker answers.
type stepper struct {
	name  string
	hosts []string
	rand  *rand.Rand
	steps int // done
}

// ask sends a request until an answer is definite: neither lost nor "repeat this".
// again says that an attempt before the last may have taken effect.
func (s *stepper) ask(ctx context.Context, method, path string, body any) (status int, text []byte, again bool, err error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return 0, nil, false, err
	}
	for ctx.Err() == nil {
		host := s.hosts[s.rand.IntN(len(s.hosts))]
		status, text, err = send(ctx, method, "http://"+host+path, sent)
		if err == nil && status < 500 {
			return status, text, again, nil
		}
		again = true
		pause := time.NewTimer(50 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	return 0, nil, again, fmt.Errorf("%s %s: %w; the last answer was %d %s", method, path, errors.Join(context.Cause(ctx), err), status, text)
}

func send(ctx context.Context, method, target string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if method == http.MethodGet {
		req.Body, req.ContentLength = nil, 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// step does one step, whatever it takes.
func (s *stepper) step(ctx context.Context) error {
	in := fmt.Sprintf("%s-%d", s.name, s.steps)
	status, text, _, err := s.ask(ctx, "POST", "/api/v1/push", map[string]any{"items": []map[string]any{
		{"queue": "tx-in", "partition": s.name, "transactionId": in, "payload": s.steps},
	}})
	if err != nil || status != http.StatusCreated {
		return fmt.Errorf("push: %d %s %w", status, text, err)
	}
	doubt := false // an attempt may have taken effect
	for {
		lease, partition, popped, err := s.pop(ctx, in)
		if err != nil {
			return err
		}
		if !popped {
			if !doubt {
				continue // the lease of a pop whose answer was lost has to end
			}
			// Done by an attempt that was given up, or leased by a lost pop: only the
			// output can tell.
			lease = "00000000-0000-0000-0000-000000000000"
		}
		operations := []map[string]any{{"type": "push", "items": []map[string]any{
			{"queue": "tx-out", "partition": s.name, "transactionId": "out-" + in, "payload": s.steps},
			{"queue": "tx-copy", "partition": s.name, "transactionId": "out-" + in, "payload": s.steps},
		}}}
		if popped {
			operations = append(operations, map[string]any{
				"type": "ack", "transactionId": in, "partitionId": partition, "leaseId": lease, "status": "completed", "consumerGroup": "g",
			})
		} else {
			operations = append(operations, map[string]any{
				"type": "ack", "transactionId": in, "partitionId": "1", "leaseId": lease, "status": "completed", "consumerGroup": "nobody",
			})
		}
		status, text, again, err := s.ask(ctx, "POST", "/api/v1/transaction", map[string]any{
			"operations": operations, "kv": []map[string]any{{"op": "incr", "ns": "tx", "key": s.name, "forever": true}},
		})
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("transaction: %d %s %w", status, text, err)
		}
		doubt = doubt || again
		var got struct {
			Success bool
			Reason  string
		}
		if err := json.Unmarshal(text, &got); err != nil {
			return err
		}
		switch {
		case got.Success:
			return nil
		case got.Reason == "duplicate" && doubt:
			return nil // an attempt whose answer was lost
		case got.Reason == "ack_rejected":
			doubt = true // the lease ended: pop again
		default:
			return fmt.Errorf("step %s: %s", in, text)
		}
	}
}

// pop takes the worker's next message, which must be the one named.
func (s *stepper) pop(ctx context.Context, want string) (lease, partition string, popped bool, err error) {
	status, text, _, err := s.ask(ctx, "GET", "/api/v1/pop/queue/tx-in/partition/"+url.PathEscape(s.name)+"?batch=1&consumerGroup=g&leaseSeconds=1&wait=true&timeout=1500", nil)
	if err != nil || status == http.StatusNoContent {
		return "", "", false, err
	}
	var got struct {
		LeaseID, PartitionID string
		Messages             []struct{ TransactionID string }
	}
	if err := json.Unmarshal(text, &got); err != nil || status != http.StatusOK || len(got.Messages) != 1 {
		return "", "", false, fmt.Errorf("pop: %d %s %w", status, text, err)
	}
	if id := got.Messages[0].TransactionID; id != want {
		return "", "", false, fmt.Errorf("popped %q, want %q: a message was completed without its step, or not with it", id, want)
	}
	return got.LeaseID, got.PartitionID, true, nil
}

// TestTransactionsAreWholeUnderFaults: while everything is broken at random, each
// step takes effect once and as a whole: its input is completed, its output is there
// in two queues, and the counter counted.
func TestTransactionsAreWholeUnderFaults(t *testing.T) {
	t.Parallel()
	l := theLane(t)
	l.span = min(l.span, max(6*time.Second, l.span/4))
	seed := l.seeds[0]
	ctx := timeout(t, l.span+5*time.Minute)
	bin, err := queenBinary()
	if err != nil {
		t.Fatal(err)
	}
	site, err := Open(ctx, bin, broker.TempDataDir(t), broker.TempDataDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := site.Close(); err != nil {
			t.Error(err)
		}
		if found, err := site.Deadlocks(); err != nil || len(found) > 0 {
			t.Errorf("deadlocks: %q %v", found, err)
		}
	}()
	var workers []*stepper
	done := make(chan error)
	writing, stop := context.WithCancel(ctx)
	defer stop()
	for i := range uint64(4) {
		w := &stepper{name: fmt.Sprint("w", i), hosts: site.Cluster().HTTP, rand: rand.New(rand.NewPCG(seed, i))}
		workers = append(workers, w)
		go func() {
			for writing.Err() == nil {
				if err := w.step(ctx); err != nil {
					done <- fmt.Errorf("%s, step %d: %w", w.name, w.steps, err)
					return
				}
				w.steps++
			}
			done <- nil
		}()
	}
	nemesis := Nemesis{
		Faults: site.Faults(l.longest), Least: l.least, Most: l.most, AtOnce: 2, Seed: seed,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	made, err := nemesis.Run(ctx, l.span)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	for range workers {
		err = errors.Join(err, <-done)
	}
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, w := range workers {
		if err := w.check(ctx); err != nil {
			t.Errorf("%s, %d steps: %v", w.name, w.steps, err)
		}
		total += w.steps
	}
	t.Logf("%d steps under %v", total, made)
	if total == 0 {
		t.Error("no step was done")
	}
}

// check compares what the worker did with what is there.
func (s *stepper) check(ctx context.Context) error {
	var want []string
	for n := range s.steps {
		want = append(want, fmt.Sprintf("out-%s-%d", s.name, n))
	}
	for _, queue := range []string{"tx-out", "tx-copy"} {
		var ids []string
		for len(ids) < len(want) {
			_, text, _, err := s.ask(ctx, "POST", "/api/v1/fetch", map[string]any{"entries": []map[string]any{{"queue": queue, "partition": s.name, "offset": len(ids)}}})
			if err != nil {
				return err
			}
			var got struct {
				Entries []struct {
					Records []struct{ TransactionID string }
				}
			}
			if err := json.Unmarshal(text, &got); err != nil || len(got.Entries) != 1 {
				return fmt.Errorf("fetch: %s %w", text, err)
			}
			if len(got.Entries[0].Records) == 0 {
				return fmt.Errorf("%s ends after %d messages, want %d", queue, len(ids), len(want))
			}
			for _, r := range got.Entries[0].Records {
				ids = append(ids, r.TransactionID)
			}
		}
		if !slices.Equal(ids, want) {
			return fmt.Errorf("%s holds %q, want %q", queue, ids, want)
		}
	}
	_, text, _, err := s.ask(ctx, "GET", "/api/v1/kv/tx/"+s.name, nil)
	var counted struct{ Value int }
	if err != nil || s.steps > 0 && json.Unmarshal(text, &counted) != nil || counted.Value != s.steps {
		return fmt.Errorf("counted %s (%w), want %d", text, err, s.steps)
	}
	if _, _, popped, err := s.pop(ctx, ""); popped || err != nil {
		return fmt.Errorf("an input is left: %w", err)
	}
	return nil
}
