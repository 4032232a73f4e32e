// Under the race detector pools lose what they get at random.

//go:build !race

package kafkawire

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// What the door may allocate for each byte of records, on its way in or out. A
// copy would be 1.
const allocatedPerByteMax = 0.5

// bytesAllocated is what f allocates, on average. It counts the whole process, so
// its tests are not parallel.
func bytesAllocated(runs int, f func()) float64 {
	f() // pools are empty the first time
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(runs)
}

// onConn is a connection without its loops: requests come from what it gets to
// read, replies are dropped.
func onConn(t testing.TB, e Engine) (c *conn, read *bytes.Reader) {
	s, err := New(t.Context(), Config{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
	read = bytes.NewReader(nil)
	return newConn(s, readerConn{read}, "test"), read
}

// readerConn reads from a reader and drops what is written.
type readerConn struct{ r *bytes.Reader }

func (c readerConn) Read(b []byte) (int, error)       { return c.r.Read(b) }
func (c readerConn) Write(b []byte) (int, error)      { return io.Discard.Write(b) }
func (c readerConn) Close() error                     { return nil }
func (c readerConn) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (c readerConn) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (c readerConn) SetDeadline(time.Time) error      { return nil }
func (c readerConn) SetReadDeadline(time.Time) error  { return nil }
func (c readerConn) SetWriteDeadline(time.Time) error { return nil }

// forgetful stores nothing and answers at once.
type forgetful struct{ *fake }

func (f forgetful) Append(_ context.Context, items []queen.AppendItem) []*queen.Pending {
	out := make([]*queen.Pending, len(items))
	for i := range out {
		out[i] = queen.CompletedPending(queen.Appended{}, nil)
	}
	return out
}

// exchange serves one request as the loops do.
func exchange(t testing.TB, c *conn) {
	req, err := c.readRequest()
	if err != nil {
		t.Fatal(err)
	}
	r := &reply{req: req}
	if req.api.start != nil {
		r.wait = c.start(req)
	} else {
		c.serial.Add(1)
	}
	c.open.Add(1)
	if err := c.serveReply(r); err != nil {
		t.Fatal(err)
	}
}

func TestProduceAllocatesLessThanItsRecords(t *testing.T) {
	c, in := onConn(t, forgetful{newFake()})
	for _, size := range []int{2 * frameStep, 1 << 20, 10 << 20} {
		req := produceRequest(9, -1, "t", batch(nil, record{value: strings.Repeat("x", size)}))
		frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
		n := bytesAllocated(32, func() {
			in.Reset(frame)
			exchange(t, c)
		})
		if perByte := n / float64(size); perByte > allocatedPerByteMax {
			t.Errorf("Produce of %d bytes allocates %.2f bytes for each", size, perByte)
		}
	}
}

func TestSmallProduceAllocatesLittle(t *testing.T) {
	c, in := onConn(t, forgetful{newFake()})
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, produceRequest(9, -1, "t", batch(nil, record{value: "x"})), 1)
	n := testing.AllocsPerRun(100, func() {
		in.Reset(frame)
		exchange(t, c)
	})
	if n > 40 {
		t.Errorf("a Produce of one record makes %v allocations", n)
	}
}

// holding is an engine whose topic t has one batch with a record of that size.
func holding(t testing.TB, size int) *fake {
	f := newFake()
	f.topic("t", 1)
	if _, err := f.Append(t.Context(), []queen.AppendItem{{
		Partition: partitionRef("t", [16]byte{}, 0), Batch: batch(nil, record{value: strings.Repeat("x", size)}),
	}})[0].Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFetchAllocatesLessThanItsRecords(t *testing.T) {
	const size = 900 << 10
	c, in := onConn(t, holding(t, size))
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, fetchRequest(11, "t", 0, 0), 1)
	n := bytesAllocated(32, func() {
		in.Reset(frame)
		exchange(t, c)
	})
	if perByte := n / size; perByte > allocatedPerByteMax {
		t.Errorf("Fetch allocates %.2f bytes for each it sends", perByte)
	}
}
