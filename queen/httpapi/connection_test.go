package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestAnswersOfAnySizeArriveWhole: on one connection, around the sizes at which
// net/http writes them in several pieces.
func TestAnswersOfAnySizeArriveWhole(t *testing.T) {
	t.Parallel()
	s, f := newTestServer(Config{})
	s.engine = &instant{fake: f}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	defer func() {
		_ = s.Shutdown(context.WithoutCancel(t.Context()))
		<-done
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	sizes := map[int64]bool{}
	for i := range 600 {
		// An id makes the answer a byte longer each time, over twice the buffer of net/http.
		body := fmt.Sprintf(`{"items":[{"queue":"q","payload":1,"transactionId":"%0*d"}]}`, 3500+i*10, i)
		if i%2 == 1 {
			body = pushBody(i%100+1, 20)
		}
		if _, err := fmt.Fprintf(c, "POST /api/v1/push HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		w, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		text, err := io.ReadAll(w.Body)
		_ = w.Body.Close()
		if err != nil || w.StatusCode != 201 || !json.Valid(text) {
			t.Fatalf("answer %d: %d %.200s (%v)", i, w.StatusCode, text, err)
		}
		sizes[w.ContentLength] = true
	}
	if len(sizes) < 300 {
		t.Errorf("%d sizes of answers only", len(sizes))
	}
}

// recorded is a connection that remembers what is written, up to a failure.
type recorded struct {
	net.Conn
	written bytes.Buffer
	calls   int
	fails   error
}

func (c *recorded) Write(b []byte) (int, error) {
	if c.calls++; c.fails != nil {
		return 0, c.fails
	}
	return c.written.Write(b)
}

// TestTheHeadOfAnAnswerWaitsForItsRest: and what becomes of the rest is what its writer is told.
func TestTheHeadOfAnAnswerWaitsForItsRest(t *testing.T) {
	t.Parallel()
	inner := &recorded{}
	c := &boundedConn{Conn: inner}
	for range 3 {
		inner.written.Reset()
		inner.calls = 0
		c.joins = true
		if n, err := c.Write([]byte("head ")); n != 5 || err != nil || inner.calls != 0 {
			t.Fatalf("%d, %v, written %q", n, err, &inner.written)
		}
		if n, err := c.Write([]byte("rest")); n != 4 || err != nil || inner.written.String() != "head rest" {
			t.Fatalf("%d, %v, written %q", n, err, &inner.written)
		}
		if n, err := c.Write([]byte("!")); n != 1 || err != nil || inner.written.String() != "head rest!" {
			t.Fatalf("%d, %v, written %q", n, err, &inner.written)
		}
	}
	c.joins = true
	inner.fails = errors.New("gone")
	if _, err := c.Write([]byte("head ")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Write([]byte("rest")); n != 0 || !errors.Is(err, inner.fails) {
		t.Errorf("%d, %v; want nothing written and the failure", n, err)
	}
}
