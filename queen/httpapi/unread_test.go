package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"queenmq/queen"
	"queenmq/store/storetest"
)

// pipes is a listener of connections that a test makes, which hold nothing between
// their ends: what is not read is not written.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done) // by Shutdown, once
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestAnAnswerNobodyReadsIsCut: a client that asks and does not read keeps the memory
// of its answer for some seconds only, when others wait for it.
func TestAnAnswerNobodyReadsIsCut(t *testing.T) {
	t.Parallel()
	const size = 200 << 10
	e, err := queen.Open(t.Context(), queen.Config{DB: storetest.New(t), Broker: queen.BrokerConfig{ID: -1}, AnswerBytesMax: size / 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if p := e.Push(t.Context(), []queen.Message{{Queue: "q", Value: make([]byte, size)}})[0]; p.Err != nil {
		t.Fatal(p.Err)
	}
	s := New(Config{Logger: slog.New(slog.DiscardHandler), AnswerTimeout: time.Hour}, e)
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		ended, cancel := context.WithCancel(t.Context())
		cancel() // it waits for nobody
		_ = s.Shutdown(ended)
		<-served
	}()
	asks := func(group string) (net.Conn, *http.Response) {
		t.Helper()
		ours, theirs := net.Pipe()
		l.conns <- theirs
		if _, err := fmt.Fprintf(ours, "GET /api/v1/pop/queue/q?consumerGroup=%s HTTP/1.1\r\nHost: h\r\n\r\n", group); err != nil {
			t.Fatal(err)
		}
		w, err := http.ReadResponse(bufio.NewReader(ours), nil)
		if err != nil {
			t.Fatal(err)
		}
		return ours, w
	}
	idler, unread := asks("idle")
	defer func() { _ = idler.Close(); _ = unread.Body.Close() }()
	if unread.StatusCode != http.StatusOK {
		t.Fatalf("status %d", unread.StatusCode)
	}
	// Now the answer is being written. Of others one may give up before it is cut, on
	// a busy machine, but not one after the other.
	given := int64(0)
	for try := 0; try < 3 && given < size; try++ {
		reader, w := asks("busy")
		if w.StatusCode == http.StatusOK {
			given, _ = io.Copy(io.Discard, w.Body)
		}
		_ = reader.Close()
		_ = w.Body.Close()
	}
	if given < size {
		t.Errorf("a reader was given %d bytes beside an answer that nobody reads, want %d", given, size)
	}
	if n, err := io.Copy(io.Discard, unread.Body); err == nil {
		t.Errorf("the answer that nobody read came after all, %d bytes", n)
	}
}
