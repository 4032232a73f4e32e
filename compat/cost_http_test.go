package compat

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
)

// costHTTP keeps a connection for each client.
var costHTTP = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}}

// costIDs makes every id new.
var costIDs atomic.Int64

const costValueBytes = 256

// letters is text that compresses little, to take values from.
var letters = func() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[r.IntN(64)]
	}
	return b
}()

// asks makes one HTTP request on a client's own connections.
func (s *site) asks(ctx context.Context, c *http.Client, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.p.HTTP+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

func value(r *rand.Rand) []byte {
	at := r.IntN(len(letters) - costValueBytes)
	return letters[at : at+costValueBytes]
}

// pushes pushes n messages a request, each with an id, to the partitions that to
// names, and wants all of them stored.
func (s *site) pushes(queue string, n int, to func(r *rand.Rand, i int) int) func(*http.Client) func(int) (turn, error) {
	return func(c *http.Client) func(int) (turn, error) {
		return func(int) (turn, error) { return s.pusher(c, queue, n, to), nil }
	}
}

// pusher pushes over the connections of c.
func (s *site) pusher(c *http.Client, queue string, n int, to func(r *rand.Rand, i int) int) turn {
	var body []byte
	return func(ctx context.Context, r *rand.Rand) (int, error) {
		body = append(body[:0], `{"items":[`...)
		for i := range n {
			if i > 0 {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, `{"queue":%q,"partition":"%d","transactionId":"%d","payload":{"text":"%s"}}`,
				queue, to(r, i), costIDs.Add(1), value(r))
		}
		body = append(body, `]}`...)
		status, text, err := s.asks(ctx, c, http.MethodPost, "/api/v1/push", body)
		if err != nil {
			return 0, err
		}
		if queued := bytes.Count(text, []byte(`"status":"queued"`)); queued != n {
			return 0, fmt.Errorf("status %d, %d of %d queued: %.300s", status, queued, n, text)
		}
		return n, nil
	}
}

// pops takes up to n messages a request and completes them. An empty answer is no error.
func (s *site) pops(queue string, n int, group string, empty *atomic.Int64) func(int) (turn, error) {
	path := fmt.Sprintf("/api/v1/pop/queue/%s?batch=%d&autoAck=true&consumerGroup=%s", queue, n, group)
	return func(int) (turn, error) {
		return func(ctx context.Context, _ *rand.Rand) (int, error) {
			status, text, err := s.asks(ctx, costHTTP, http.MethodGet, path, nil)
			if err != nil || status != http.StatusOK && status != http.StatusNoContent {
				return 0, fmt.Errorf("status %d (%w): %.300s", status, err, text)
			}
			if status == http.StatusNoContent {
				empty.Add(1)
			}
			return max(0, bytes.Count(text, []byte(`"partitionId"`))-1), nil // once of all
		}, nil
	}
}
