package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"queenmq/queen"
)

// listen serves s on a loopback port until the test ends.
func listen(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // do not wait for anybody
		_ = s.Shutdown(ctx)
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// panicky is an engine with a bug.
type panicky struct{ *fake }

func (panicky) Cluster() queen.Cluster { panic("a bug") }

func TestAPanicAnswers500AndTheProcessGoesOn(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, panicky{newFake()})
	w := do(s, "GET", "/status", "")
	if w.Code != 500 || !strings.Contains(w.Body.String(), `"code":"internal"`) || strings.Contains(w.Body.String(), "a bug") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "a bug") || !strings.Contains(log.String(), "health.go") {
		t.Errorf("the log does not say where: %s", &log)
	}
	if w := do(s, "GET", "/livez", ""); w.Code != 200 {
		t.Errorf("after it: %d", w.Code)
	}
	if m := do(s, "GET", "/metrics/prometheus", "").Body.String(); !strings.Contains(m, "queen_http_panics_total 1") ||
		!strings.Contains(m, `queen_http_requests_total{code="500",route="/status"} 1`) {
		t.Errorf("not counted: %s", m)
	}
}

func TestGarbageIsAnsweredAndTheProcessGoesOn(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(Config{HeaderBytesMax: 4096})
	addr := listen(t, s)
	f := func(sent string, want string) {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		go func() { _, _ = io.WriteString(c, sent) }()
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%.30q: %q %v, want %s", sent, line, err, want)
		}
	}
	f("\x00\x00\x00\x10\x00\x12\x00\x04garbage\r\n\r\n", " 400 ")
	f("GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", " 400 ")
	f("GET /livez HTTP/1.1\r\n\r\n", " 400 ") // no Host
	f("GET /livez HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("y", 20_000)+"\r\n\r\n", " 431 ")
	f("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", " 400 ")
	f("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", " 400 ")
	f("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", " 400 ")
	f("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", " 413 ")
	f("GET http://x/%zz HTTP/1.1\r\nHost: x\r\n\r\n", " 400 ")
	f("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", " 200 ")
}

// TestWhatHTTPRefusesIsAnsweredInJSON: net/http answers a request it cannot
// read itself, before any handler.
func TestWhatHTTPRefusesIsAnsweredInJSON(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(Config{HeaderBytesMax: 4096})
	addr := listen(t, s)
	f := func(sent string, status int, word, has string) {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		go func() { _, _ = io.WriteString(c, sent) }()
		w, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%.30q: %v", sent, err)
		}
		defer w.Body.Close()
		var got struct{ Error, Code string }
		if err := json.NewDecoder(w.Body).Decode(&got); err != nil {
			t.Fatalf("%.30q: %v", sent, err)
		}
		if w.StatusCode != status || w.Header.Get("Content-Type") != "application/json" || got.Code != word || !strings.Contains(got.Error, has) {
			t.Errorf("%.30q: %d %v %+v, want %d %s with %q", sent, w.StatusCode, w.Header, got, status, word, has)
		}
	}
	f("GET /api/v1/pop/queue/q%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed_request", "well escaped")
	f("GET /livez HTTP/1.1\r\n\r\n", 400, "malformed_request", "Host")
	f("GET /livez HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("y", 20_000)+"\r\n\r\n", 431, "headers_too_large", "431")
	f("GET /no/such HTTP/1.1\r\nHost: x\r\n\r\n", 404, "no_such_route", "route")
}

func TestPopWaitsForAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newTestServer(Config{})
		began := time.Now()
		if w := do(s, "GET", "/api/v1/pop/queue/q?wait=true&timeout=1500", ""); w.Code != 204 || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("%d after %v", w.Code, time.Since(began))
		}
		<-e.waits
		if w := do(s, "GET", "/api/v1/pop/queue/q?timeout=1500", ""); w.Code != 204 || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("without wait: %d after %v", w.Code, time.Since(began))
		}
		go func() {
			<-e.waits
			do(s, "POST", "/api/v1/push", item(`"payload":"late"`))
		}()
		began = time.Now()
		if w := do(s, "GET", "/api/v1/pop/queue/q?wait=true", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"data":"late"`) || time.Since(began) != 0 {
			t.Errorf("%d %s after %v", w.Code, w.Body, time.Since(began))
		}
	})
}

// slow is an engine whose fetch takes its time.
type slow struct {
	*fake
	takes time.Duration
}

func (e slow) Fetch(ctx context.Context, r queen.FetchRequest) ([]queen.Fetched, error) {
	select {
	case <-time.After(e.takes):
		return e.fake.Fetch(ctx, r)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func TestAWaitMayBeLongerThanARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, e := newTestServer(Config{RequestTimeout: time.Second})
		began := time.Now()
		if w := do(s, "GET", "/api/v1/pop/queue/q?wait=true&timeout=5000", ""); w.Code != 204 || time.Since(began) != 5*time.Second {
			t.Errorf("%d after %v", w.Code, time.Since(began))
		}
		s.engine = slow{e, time.Hour}
		began = time.Now()
		w := do(s, "POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":0}],"maxWaitMs":5000}`)
		if w.Code != 503 || !strings.Contains(w.Body.String(), "timed_out") || time.Since(began) != 6*time.Second {
			t.Errorf("an engine that does not come back: %d %s after %v", w.Code, w.Body, time.Since(began))
		}
	})
}

func TestAClientThatHangsUpEndsItsWait(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	addr := listen(t, s)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /api/v1/pop/queue/q?wait=true&timeout=600000 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-e.waits
	_ = c.Close()
	if err := s.http.Shutdown(t.Context()); err != nil { // waits for it, without ending it
		t.Fatal(err)
	}
	push(t, s, item(`"payload":1`))
	if w := do(s, "GET", "/api/v1/pop/queue/q", ""); w.Code != 200 {
		t.Errorf("the message went to nobody: %d", w.Code)
	}
}

func TestShutdownAnswersWhoWaits(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	statuses := make(chan int, 50)
	var wg sync.WaitGroup
	for range cap(statuses) {
		wg.Go(func() {
			r, err := http.Get("http://" + l.Addr().String() + "/api/v1/pop/queue/q?wait=true&timeout=600000")
			if err != nil {
				t.Error(err)
				return
			}
			_ = r.Body.Close()
			statuses <- r.StatusCode
		})
	}
	for range cap(statuses) {
		<-e.waits
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	close(statuses)
	for status := range statuses {
		if status != 503 {
			t.Errorf("a waiting pop was answered %d", status)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if w := do(s, "GET", "/readyz", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("readyz: %d", w.Code)
	}
	if w := do(s, "GET", "/livez", ""); w.Code != 200 {
		t.Errorf("livez: %d", w.Code)
	}
	if w := do(s, "GET", "/api/v1/pop/queue/q?wait=true", ""); w.Code != 503 {
		t.Errorf("a late pop: %d", w.Code)
	}
}

func TestShutdownClosesWhatIsLeftAtItsDeadline(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(Config{})
	c, err := net.Dial("tcp", listen(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	// The head of a push whose body never comes.
	if _, err := io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v; want the request to be under way", line, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := io.ReadAll(in); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v", err)
	}
}

func TestHealthFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	e.down = fmt.Errorf("%w: connection refused", queen.ErrUnavailable)
	for target, want := range map[string]int{"/health": 503, "/readyz": 503, "/livez": 200, "/status": 200, "/metrics/prometheus": 200} {
		if w := do(s, "GET", target, ""); w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
	}
	e.down = errors.New("something odd")
	if w := do(s, "GET", "/readyz", ""); w.Code != 503 || strings.Contains(w.Body.String(), "odd") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(Config{ConnectionsMax: 1})
	addr := listen(t, s)
	first, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	get := func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		_, err := bufio.NewReader(c).ReadString('\n')
		return err
	}
	if err := get(first); err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	_ = second.SetDeadline(time.Now().Add(100 * time.Millisecond))
	if err := get(second); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Fatalf("answered beside the first: %v", err)
	}
	_ = first.Close()
	_ = second.SetDeadline(time.Now().Add(10 * time.Second))
	if line, err := bufio.NewReader(second).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Errorf("not answered after the first went: %q %v", line, err)
	}
}
