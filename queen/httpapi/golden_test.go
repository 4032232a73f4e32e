package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newTestServer is a door on a fake engine, silent.
func newTestServer(cfg Config) (*Server, *fake) {
	e := newFake()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Version = "test"
	return New(cfg, e), e
}

// do sends one request through the handler.
func do(s *Server, method, target, body string, header ...string) *httptest.ResponseRecorder {
	var r *http.Request
	if body == "" {
		r = httptest.NewRequest(method, target, nil)
	} else {
		r = httptest.NewRequest(method, target, strings.NewReader(body))
	}
	r.Header.Set("X-Request-Id", "r")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// TestGoldenExchanges replays testdata/*.http: "> METHOD target", the request's
// body in lines with ">", then "< status", headers to compare as "< Name: value",
// and the answer's body in lines with "<". Lines are joined without their line
// break; others are comments. The answers were written by hand from the
// contract; the fake counts ids and stops the clock.
func TestGoldenExchanges(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchanges: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".http"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, _ := newTestServer(Config{})
			for _, x := range parseExchanges(t, string(text)) {
				w := do(s, x.method, x.target, x.body)
				if w.Code != x.status {
					t.Errorf("line %d: %s %s: status %d, want %d: %s", x.line, x.method, x.target, w.Code, x.status, w.Body)
					continue
				}
				for name, want := range x.header {
					if got := w.Header().Get(name); got != want {
						t.Errorf("line %d: %s: %q, want %q", x.line, name, got, want)
					}
				}
				if got := strings.TrimRight(w.Body.String(), "\n"); got != x.want {
					t.Errorf("line %d: %s %s\n got %s\nwant %s", x.line, x.method, x.target, got, x.want)
				}
			}
		})
	}
}

type goldenExchange struct {
	line                 int
	method, target, body string
	status               int
	header               map[string]string
	want                 string
}

func parseExchanges(t testing.TB, text string) []goldenExchange {
	t.Helper()
	var all []goldenExchange
	asking := false
	for n, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "> "):
			rest := line[2:]
			if !asking {
				method, target, found := strings.Cut(rest, " ")
				if !found {
					t.Fatalf("line %d: no target", n+1)
				}
				all = append(all, goldenExchange{line: n + 1, method: method, target: target, header: map[string]string{}})
				asking = true
				continue
			}
			all[len(all)-1].body += rest
		case strings.HasPrefix(line, "< "):
			rest := line[2:]
			x := &all[len(all)-1]
			name, value, isHeader := strings.Cut(rest, ": ")
			switch {
			case asking:
				asking = false
				if _, err := scan(rest, &x.status); err != nil {
					t.Fatalf("line %d: %v", n+1, err)
				}
			case isHeader && x.want == "" && !strings.ContainsAny(name, `{["# `):
				x.header[name] = value
			default:
				x.want += rest
			}
		}
	}
	return all
}

// valid tells whether an answer is JSON, by the other reader in this house.
func valid(b []byte) bool { return len(bytes.TrimSpace(b)) > 0 && isJSON(b, 1000) }

func scan(s string, n *int) (int, error) { return fmt.Sscan(s, n) }
