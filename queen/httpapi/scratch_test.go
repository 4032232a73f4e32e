package httpapi

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"queenmq/queen"
)

// lingering is an engine that keeps the messages of a push whose request ends first,
// as the real one does until they are stored.
type lingering struct {
	*fake
	kept []queen.Message
}

func (e *lingering) Push(ctx context.Context, msgs []queen.Message) []queen.Pushed {
	if ctx.Err() == nil {
		return e.fake.Push(ctx, msgs)
	}
	e.kept = msgs
	return slices.Repeat([]queen.Pushed{{Status: queen.Failed, Err: queen.ErrOutcomeUnknown}}, len(msgs))
}

// TestMemoryOfPushIsNotUsedWhileItIsRead: what a push that outlives its request holds
// is still what its client sent after others were served.
func TestMemoryOfPushIsNotUsedWhileItIsRead(t *testing.T) {
	s, f := newTestServer(Config{})
	e := &lingering{fake: f}
	s.engine = e
	body := func(id string) string {
		return fmt.Sprintf(`{"items":[{"queue":"orders","transactionId":%q,"payload":%q}]}`, id, strings.Repeat(id, 10))
	}
	push := func(ctx context.Context, id string) int {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/api/v1/push", strings.NewReader(body(id))))
		return w.Code
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 10 {
		if code := push(t.Context(), fmt.Sprintf("before-%02d", i)); code != 201 {
			t.Fatal(code)
		}
	}
	if code := push(gone, "lingering"); code != 503 {
		t.Fatal(code)
	}
	for i := range 10 {
		if code := push(t.Context(), fmt.Sprintf("after-%03d", i)); code != 201 {
			t.Fatal(code)
		}
	}
	if m := e.kept[0]; string(m.ID) != "lingering" || string(m.Value) != `"`+strings.Repeat("lingering", 10)+`"` {
		t.Errorf("the message became %q: %q", m.ID, m.Value)
	}
}
