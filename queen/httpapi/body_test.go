package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{PushBytesMax: 1000, BodyBytesMax: 100})
	addr := listen(t, s)
	f := func(path string, size int, chunked bool, want int) {
		t.Helper()
		var body io.Reader = strings.NewReader(item(`"payload":"` + strings.Repeat("x", size) + `"`))
		if chunked {
			body = struct{ io.Reader }{body} // its length is not known
		}
		r, err := http.Post("http://"+addr+path, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		text, _ := io.ReadAll(r.Body)
		if r.StatusCode != want {
			t.Errorf("%s, %d bytes, chunked %v: %d %s, want %d", path, size, chunked, r.StatusCode, text, want)
		}
		if want == 413 && !bytes.Contains(text, []byte("body_too_large")) {
			t.Errorf("413 without its word: %s", text)
		}
	}
	f("/api/v1/push", 900, false, 201)
	f("/api/v1/push", 900, true, 201)
	f("/api/v1/push", 1000, false, 413)
	f("/api/v1/push", 1000, true, 413)
	f("/api/v1/push", 300_000, true, 413)
	f("/api/v1/configure", 100, false, 413)
	if n := e.parts[1].LogEnd; n != 2 {
		t.Errorf("%d stored", n)
	}
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if s.budget.free != s.cfg.InFlightBytesMax {
		t.Errorf("%d bytes of the budget are gone", s.cfg.InFlightBytesMax-s.budget.free)
	}
}

// TestAClientThatOnlySendsStillHears413: many clients listen only once the whole
// body is out.
func TestAClientThatOnlySendsStillHears413(t *testing.T) {
	t.Parallel()
	const limit = 8 << 20 // more than sockets hold
	s, _ := newTestServer(Config{PushBytesMax: limit})
	addr := listen(t, s)
	f := func(head, body string) {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\n"+head+"\r\n\r\n"+body); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, " 413 ") {
			t.Errorf("%s: %q %v", head, line, err)
		}
	}
	text := strings.Repeat(" ", limit+limit/2)
	f(fmt.Sprintf("Content-Length: %d", len(text)), text)
	f("Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(text), text))
	f("Expect: 100-continue\r\nContent-Length: 9000000", "")
	f("Content-Length: 99999999999", "")
}

func TestCompressedAndBinaryBodiesAreRefused(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	if w := do(s, "POST", "/api/v1/push", item(`"payload":1`), "Content-Encoding", "gzip"); w.Code != 415 {
		t.Errorf("gzip: %d %s", w.Code, w.Body)
	}
	if w := do(s, "POST", "/api/v1/push", item(`"payload":1`), "Content-Type", "application/x-queen-push"); w.Code != 415 {
		t.Errorf("binary: %d %s", w.Code, w.Body)
	}
	if len(e.queues) != 0 {
		t.Error("stored")
	}
	if w := do(s, "POST", "/api/v1/push", item(`"payload":1`), "Content-Encoding", "identity", "Content-Type", "text/plain"); w.Code != 201 {
		t.Errorf("identity: %d %s", w.Code, w.Body)
	}
}

func TestABodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(Config{BodyTimeout: 20 * time.Millisecond})
	c, err := net.Dial("tcp", listen(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(c)
	if !bytes.HasPrefix(text, []byte("HTTP/1.1 408 ")) || !bytes.Contains(text, []byte("body_timeout")) ||
		!bytes.Contains(text, []byte("Connection: close")) {
		t.Errorf("%s", text)
	}
}

// TestBodiesShareABudget: what does not fit waits for its share, and is refused
// where it waits too long.
func TestBodiesShareABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(Config{InFlightBytesMax: 1 << 20})
		body := item(`"payload":1`)
		if err := s.budget.take(t.Context(), 1<<20); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w := do(s, "POST", "/api/v1/push", body)
		if w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"overloaded"`) || time.Since(began) != 2*time.Second {
			t.Errorf("%d %s after %v", w.Code, w.Body, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { s.budget.give(1 << 20) })
		if w := do(s, "POST", "/api/v1/push", body); w.Code != 201 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if s.budget.free != 1<<20 {
			t.Errorf("%d bytes free", s.budget.free)
		}
	})
}

// TestABodysDeadlineEndsWithTheBody: a request that waits longer than a body may
// take is not taken for a client that hung up.
func TestABodysDeadlineEndsWithTheBody(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{BodyTimeout: 50 * time.Millisecond})
	s.engine = slow{e, 200 * time.Millisecond}
	r, err := http.Post("http://"+listen(t, s)+"/api/v1/fetch", "", strings.NewReader(`{"entries":[{"queue":"q","offset":0}],"maxWaitMs":1000}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != 200 {
		t.Errorf("%d", r.StatusCode)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// TestGarbageBodiesAllocateNoMoreThanTheirSize: whatever a body claims, it costs
// its own bytes and a small multiple, never what it claims.
func TestGarbageBodiesAllocateNoMoreThanTheirSize(t *testing.T) {
	s, _ := newTestServer(Config{})
	const size = 1 << 20
	for name, unit := range map[string]string{
		"brackets": "[", "braces": `{"a":`, "strings": `"a",`, "items": `{},`, "numbers": "9", "escapes": `\u0000`, "bytes": "\xff",
	} {
		body := `{"items":[` + strings.Repeat(unit, size/len(unit))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := do(s, "POST", "/api/v1/push", body)
		runtime.ReadMemStats(&after)
		if w.Code != 400 && w.Code != 413 {
			t.Errorf("%s: %d", name, w.Code)
		}
		limit := uint64(8 * size)
		if name == "items" || name == "strings" { // bounded by PushItemsMax, and paid for in the budget
			limit = 128 << 20
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > limit {
			t.Errorf("%s: %d bytes allocated for %d", name, got, size)
		}
	}
}
