package kafkawire

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// W09: pipelined replies keep the order of their requests, and another
// connection is not held up.
func TestPipelinedRepliesKeepRequestOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("empty", 1)
		c, other := d.dial(), d.dial()
		began := time.Now()
		fetch := fetchRequest(11, "empty", 0, 3*time.Second)
		reqs := []kmsg.Request{
			fetch, at(kmsg.NewPtrMetadataRequest(), 9), at(kmsg.NewPtrApiVersionsRequest(), 0),
			produceRequest(9, 1, "empty", batch(nil, record{value: "x"})),
		}
		for _, r := range reqs {
			c.send(r)
		}
		ask[*kmsg.MetadataResponse](other, at(kmsg.NewPtrMetadataRequest(), 9))
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the other connection waited %v", waited)
		}
		if n := d.end("empty", 0); n != 0 {
			t.Errorf("the Produce was carried out before the Fetch was answered: end %d", n)
		}
		for i, r := range reqs {
			c.receive(r, int32(i+1))
			if waited := time.Since(began); waited != 3*time.Second {
				t.Errorf("reply %d came after %v", i+1, waited)
			}
		}
	})
}

func TestProduceOverlapsProduce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.fake.hold = true
		c := d.dial()
		req := produceRequest(9, -1, "t", batch(nil, record{value: "x"}))
		for range 3 {
			c.send(req)
		}
		meta := at(kmsg.NewPtrMetadataRequest(), 9)
		c.send(meta)
		c.send(req)
		synctest.Wait()
		if n := len(d.fake.held); n != 3 {
			t.Fatalf("%d appends are under way, want the 3 before the Metadata", n)
		}
		slices.Reverse(d.fake.held)
		d.fake.release()
		for i := range 3 {
			if got := produced(c.receive(req, int32(i+1)).(*kmsg.ProduceResponse)); got.BaseOffset != int64(i) {
				t.Errorf("reply %d has base offset %d", i, got.BaseOffset)
			}
		}
		c.receive(meta, 4)
		synctest.Wait()
		if n := len(d.fake.held); n != 1 {
			t.Fatalf("%d appends are under way, want the one after the Metadata", n)
		}
		d.fake.release()
		c.receive(req, 5)
	})
}

func TestProduceBehindAnotherWaitsNoLongerThanNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.fake.hold = true
		c := d.dial()
		fetch := fetchRequest(11, "t", 0, time.Second)
		req := produceRequest(9, -1, "t", batch(nil, record{value: "x"}))
		c.send(fetch)
		c.send(req)
		c.receive(fetch, 1)
		synctest.Wait()
		c.send(req) // overlaps the first, which the write loop started
		synctest.Wait()
		if n := len(d.fake.held); n != 2 {
			t.Fatalf("%d appends are under way, want 2", n)
		}
		d.fake.release()
		c.receive(req, 2)
		c.receive(req, 3)
	})
}

func TestNoAcksWritesNothingAndKeepsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		c := d.dial()
		for range 5 {
			c.send(produceRequest(9, 0, "t", batch(nil, record{value: "x"})))
		}
		meta := at(kmsg.NewPtrMetadataRequest(), 9)
		c.receive(meta, c.send(meta))
		if n := d.end("t", 0); n != 5 {
			t.Errorf("log end %d, want 5", n)
		}
	})
}

func TestNoAcksErrorClosesConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		c := d.dial()
		c.send(produceRequest(9, 0, "missing", batch(nil, record{value: "x"})))
		c.closed()
	})
}

func TestHangUpEndsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		c := d.dial()
		c.send(fetchRequest(11, "t", 0, 5*time.Minute))
		synctest.Wait()
		began := time.Now()
		_ = c.conn.Close()
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.conns) != 0 || len(d.perIP) != 0 {
			t.Errorf("%d connections are left after a hang-up", len(d.conns))
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it took %v", waited)
		}
		for _, b := range d.room.parts {
			if b.free != b.size {
				t.Errorf("%d bytes were not given back", b.size-b.free)
			}
		}
	})
}

func TestProduceSentBeforeHangUpIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.fake.contexts = []context.Context{}
		c := d.dial()
		c.send(fetchRequest(11, "t", 0, time.Minute)) // keeps the rest waiting
		for range 3 {
			c.send(produceRequest(9, 0, "t", batch(nil, record{value: "x"})))
		}
		synctest.Wait()
		_ = c.conn.Close()
		synctest.Wait()
		if n := d.end("t", 0); n != 3 {
			t.Errorf("log end %d, want 3", n)
		}
		for _, ctx := range d.fake.contexts {
			if ctx.Err() == nil {
				t.Error("the time of an append runs on, though nobody waits for it")
			}
		}
	})
}

func TestSlowFrameIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		c := d.dial()
		frame := c.fmt.AppendRequest(nil, at(kmsg.NewPtrMetadataRequest(), 9), 1)
		began := time.Now()
		for _, b := range frame {
			if _, err := c.conn.Write([]byte{b}); err != nil {
				break
			}
			<-time.After(5 * time.Second)
		}
		c.closed()
		// Ten seconds for the prefix and ten for the rest, noticed at the next byte.
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("closed after %v", took)
		}
		if log := d.wholeLog(); !strings.Contains(log, "took too long") {
			t.Errorf("the log does not say why: %s", log)
		}
	})
}

func TestIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		c := d.dial()
		began := time.Now()
		meta := at(kmsg.NewPtrMetadataRequest(), 9)
		c.receive(meta, c.send(meta))
		c.closed()
		if took := time.Since(began); took != 10*time.Minute {
			t.Errorf("closed after %v, want 10m", took)
		}
	})
}

func TestWaitingConnectionIsNotIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.FetchWaitMax = time.Hour })
		d.fake.topic("t", 1)
		c := d.dial()
		fetch := fetchRequest(11, "t", 0, 45*time.Minute)
		began := time.Now()
		c.receive(fetch, c.send(fetch))
		if took := time.Since(began); took != 45*time.Minute {
			t.Errorf("answered after %v", took)
		}
	})
}

func TestClientThatDoesNotReadIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		c := d.dial()
		c.send(at(kmsg.NewPtrMetadataRequest(), 9))
		<-time.After(31 * time.Second)
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.conns) != 0 {
			t.Error("a client that does not read keeps its connection")
		}
		if !strings.Contains(d.logs.String(), "does not read its replies") {
			t.Errorf("the log does not say why: %s", d.logs)
		}
	})
}

func TestPanicOfAHandlerEndsItsConnectionOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.apis[60].handle = func(*conn, context.Context, *request) (kmsg.Response, error) { panic("boom") }
		c, other := d.dial(), d.dial()
		c.send(at(kmsg.NewPtrDescribeClusterRequest(), 0))
		c.closed()
		ask[*kmsg.MetadataResponse](other, at(kmsg.NewPtrMetadataRequest(), 9))
		if !strings.Contains(d.logs.String(), "boom") {
			t.Error("the panic is not in the log")
		}
	})
}
