package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

// instant is an engine that takes everything and keeps nothing.
type instant struct {
	*fake
	pushed []queen.Pushed
	popped queen.Popped
}

func (e *instant) Push(_ context.Context, msgs []queen.Message) []queen.Pushed {
	if cap(e.pushed) < len(msgs) {
		e.pushed = make([]queen.Pushed, len(msgs))
	}
	out := e.pushed[:len(msgs)]
	for i := range msgs {
		out[i] = queen.Pushed{Status: queen.Queued, TransactionID: msgs[i].ID, Partition: "Default", Offset: int64(i)}
	}
	return out
}

func (e *instant) Pop(context.Context, queen.PopRequest) ([]queen.Popped, error) {
	return []queen.Popped{e.popped}, nil
}

func pushBody(items, size int) string {
	payload := `{"text":"` + strings.Repeat("x", size-11) + `"}`
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":"orders","partition":"p","payload":%s,"transactionId":"order-%08d"}`, payload, i)
	}
	return b.String() + `]}`
}

func BenchmarkPush(b *testing.B) {
	for _, items := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("items=%d/bytes=256", items), func(b *testing.B) {
			s, f := newTestServer(Config{})
			s.engine = &instant{fake: f}
			body := pushBody(items, 256)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/api/v1/push", strings.NewReader(body))
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				if w.Code != 201 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// BenchmarkPushOverTCP is the whole door, connection and all, with an engine that
// costs nothing; the client's part is small.
func BenchmarkPushOverTCP(b *testing.B) {
	const items = 100
	s, f := newTestServer(Config{})
	s.engine = &instant{fake: f}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	defer func() { _ = s.Shutdown(context.WithoutCancel(b.Context())) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	body := pushBody(items, 256)
	request := fmt.Appendf(nil, "POST /api/v1/push HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	in := bufio.NewReaderSize(c, 64<<10)
	began := processTime(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		w, err := http.ReadResponse(in, nil)
		if err != nil || w.StatusCode != 201 {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, w.Body); err != nil {
			b.Fatal(err)
		}
		_ = w.Body.Close()
	}
	b.ReportMetric(float64((processTime(b)-began).Nanoseconds())/float64(b.N)/items, "cpu-ns/item")
}

// processTime is the processor time this process has taken.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkPop(b *testing.B) {
	s, f := newTestServer(Config{})
	value := []byte(`{"text":"` + strings.Repeat("x", 245) + `"}`)
	e := &instant{fake: f, popped: queen.Popped{Queue: "orders", Partition: "p", PartitionID: 7, LeaseID: uuid.Max}}
	for i := range 100 {
		e.popped.Messages = append(e.popped.Messages, queen.StoredMessage{TransactionID: []byte("order"), Offset: int64(i), Value: value})
	}
	s.engine = e
	b.SetBytes(100 * 256)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("GET", "/api/v1/pop/queue/orders", nil)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}

// TestPushAllocatesNothingPerItem: reading a plain item and writing its outcome costs
// its share of the slices they are kept in, and no allocation of its own.
func TestPushAllocatesNothingPerItem(t *testing.T) {
	s, f := newTestServer(Config{})
	s.engine = &instant{fake: f}
	allocs := func(items int) float64 {
		x := &exchange{s: s, req: httptest.NewRequest("POST", "/api/v1/push", nil), body: []byte(pushBody(items, 64))}
		return testing.AllocsPerRun(10, func() {
			a, err := s.push(x)
			if err != nil || a.status != 201 {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocs(100), allocs(2000); few > 20 || many-few > 20 {
		t.Errorf("%v allocations for 100 items, %v for 2,000", few, many)
	}
}

// TestPopAllocatesNothingPerMessage: the same for a message of a pop's answer.
func TestPopAllocatesNothingPerMessage(t *testing.T) {
	s, f := newTestServer(Config{})
	e := &instant{fake: f}
	s.engine = e
	allocs := func(messages int) float64 {
		e.popped = queen.Popped{Queue: "orders", Partition: "p", PartitionID: 7, LeaseID: uuid.Max}
		for i := range messages {
			e.popped.Messages = append(e.popped.Messages, queen.StoredMessage{
				TransactionID: fmt.Appendf(nil, "order-%d", i), Offset: int64(i), Value: []byte(`{"a":[1,"x\u0041"]}`),
			})
		}
		x := &exchange{s: s, req: httptest.NewRequest("GET", "/api/v1/pop/queue/orders", nil), names: names{queue: "orders"}}
		return testing.AllocsPerRun(10, func() {
			a, err := s.pop(x)
			if err != nil || a.status != 200 {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocs(100), allocs(2000); few > 60 || many-few > 20 {
		t.Errorf("%v allocations for 100 messages, %v for 2,000", few, many)
	}
}
