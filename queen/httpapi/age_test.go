package httpapi

import (
	"testing"
	"time"
)

// TestWhatWasCountedBeforeTellsItsAge: only what may be of an earlier count has one.
func TestWhatWasCountedBeforeTellsItsAge(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.countedAt = time.Now().Add(-100 * time.Second)
	s := New(Config{}, f)
	if w := do(s, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`); w.Code != 201 {
		t.Fatal(w.Code, w.Body)
	}
	for path, want := range map[string]bool{
		"/api/v1/status": true, "/api/v1/resources/overview": true, "/api/v1/status/queues": true, "/api/v1/status/queues/q": true,
		"/api/v1/consumer-groups": true, "/api/v1/consumer-groups/lagging": true,
		"/api/v1/resources/queues": false, "/api/v1/resources/queues/q/depth": false, "/livez": false,
	} {
		w := do(s, "GET", path, "")
		if got := w.Header().Get("Age"); w.Code != 200 || (got >= "100" && len(got) == 3) != want || !want && got != "" {
			t.Errorf("%s: %d, Age %q", path, w.Code, got)
		}
	}
}
