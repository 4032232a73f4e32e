package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"queenmq/compat/broker"
)

// call sends a JSON request and decodes the answer, which must have one of the
// statuses; what it had is returned.
func call(ctx context.Context, t *testing.T, p *broker.Process, method, path string, body, answer any, statuses ...int) int {
	t.Helper()
	status, text, err := try(ctx, p, method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statuses {
		if status != s {
			continue
		}
		if answer != nil && len(text) > 0 {
			if err := json.Unmarshal(text, answer); err != nil {
				t.Fatalf("%s %s: %v in %s", method, path, err, text)
			}
		}
		return status
	}
	t.Fatalf("%s %s answered %d, want %v: %s", method, path, status, statuses, text)
	return 0
}

// try sends a JSON request and answers what came, for tests of faults.
func try(ctx context.Context, p *broker.Process, method, path string, body any) (int, []byte, error) {
	var b bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&b).Encode(body); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.HTTP+path, &b)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// item is one message to push.
type item struct {
	Queue         string `json:"queue"`
	Partition     string `json:"partition,omitempty"`
	Payload       any    `json:"payload"`
	TransactionID string `json:"transactionId,omitempty"`
}

// verdict is the outcome of one pushed item.
type verdict struct {
	MessageID     string `json:"message_id"`
	TransactionID string `json:"transaction_id"`
	Status        string `json:"status"`
	Offset        int64  `json:"offset"`
	Error         string `json:"error"`
}

func push(ctx context.Context, t *testing.T, p *broker.Process, items ...item) []verdict {
	t.Helper()
	var vs []verdict
	call(ctx, t, p, "POST", "/api/v1/push", map[string]any{"items": items}, &vs, http.StatusCreated)
	if len(vs) != len(items) {
		t.Fatalf("%d verdicts for %d items", len(vs), len(items))
	}
	return vs
}

// popped is one message handed out by pop.
type popped struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	Data          json.RawMessage `json:"data"`
	Offset        int64           `json:"offset"`
	PartitionID   string          `json:"partitionId"`
	LeaseID       string          `json:"leaseId"`
}

// pop takes up to n messages; none is an empty answer.
func pop(ctx context.Context, t *testing.T, p *broker.Process, path string) []popped {
	t.Helper()
	var a struct {
		Messages []popped `json:"messages"`
	}
	call(ctx, t, p, "GET", path, nil, &a, http.StatusOK, http.StatusNoContent)
	return a.Messages
}

// queue is what resources say of one.
type queue struct {
	Name               string `json:"name"`
	Partitions         int    `json:"partitions"`
	DedupWindowSeconds int    `json:"dedupWindowSeconds"`
}

func describeQueue(ctx context.Context, t *testing.T, p *broker.Process, name string) queue {
	t.Helper()
	var q queue
	call(ctx, t, p, "GET", "/api/v1/resources/queues/"+name, nil, &q, http.StatusOK)
	return q
}
