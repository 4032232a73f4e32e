// Under the race detector pools lose what they get at random.

//go:build !race

package httpapi

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// TestPushUsesTheMemoryOfOthers: reading a body and its items and writing the answer
// allocates next to nothing for each, once other pushes were served. Not parallel: it
// counts what the whole process allocates.
func TestPushUsesTheMemoryOfOthers(t *testing.T) {
	s, f := newTestServer(Config{})
	s.engine = &instant{fake: f}
	const items, pushes = 100, 200
	body := pushBody(items, 256)
	push := func() {
		x := &exchange{s: s, req: httptest.NewRequest("POST", "/api/v1/push", strings.NewReader(body))}
		defer func() { s.budget.give(x.taken) }()
		x.memory()
		var err error
		if x.body, err = s.readBody(x, 1<<20); err != nil {
			t.Fatal(err)
		}
		if a, err := s.push(x); err != nil || a.status != 201 {
			t.Fatal(err)
		}
		x.giveBack()
	}
	push()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range pushes {
		push()
	}
	runtime.ReadMemStats(&after)
	// A request of httptest takes 5 KB.
	if n := (after.TotalAlloc - before.TotalAlloc) / (items * pushes); n > 100 {
		t.Errorf("%d bytes allocated for each item of %d bytes", n, len(body)/items)
	}
}
