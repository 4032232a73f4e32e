package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// failingWriter is a connection that breaks with the answer.
type failingWriter struct{ *httptest.ResponseRecorder }

func (w failingWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestPopGivesBackWhatCannotBeDelivered, and only that: a client that has its answer
// may be gone a moment later.
func TestPopGivesBackWhatCannotBeDelivered(t *testing.T) {
	t.Parallel()
	f := func(want int, leave bool, wrap func(*httptest.ResponseRecorder) http.ResponseWriter) {
		t.Helper()
		s, e := newTestServer(Config{})
		push(t, s, `{"items":[{"queue":"q","payload":1}]}`)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if leave {
			e.beforeAnswer = cancel
		}
		r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/pop/queue/q", nil)
		s.Handler().ServeHTTP(wrap(httptest.NewRecorder()), r)
		if len(e.released) != want {
			t.Errorf("left %v: released %v, want %d", leave, e.released, want)
		}
	}
	plain := func(w *httptest.ResponseRecorder) http.ResponseWriter { return w }
	broken := func(w *httptest.ResponseRecorder) http.ResponseWriter { return failingWriter{w} }
	f(0, false, plain)
	f(1, true, plain)
	f(1, false, broken)
	f(1, true, broken)
}
