package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
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
		for _, b := range []*budget{d.room.small, d.room.large} {
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

func TestShutdownAnswersWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.fake.hold = true
		d.fake.topic("quiet", 1)
		waiting, producing := d.dial(), d.dial()
		fetch := fetchRequest(11, "quiet", 0, 5*time.Minute)
		waiting.send(fetch)
		produce := produceRequest(9, -1, "t", batch(nil, record{value: "x"}))
		producing.send(produce)
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- d.Shutdown(context.Background()) }()
		if got := fetched(waiting.receive(fetch, 1).(*kmsg.FetchResponse)); got.ErrorCode != codeNotLeaderOrFollower {
			t.Errorf("the waiting Fetch got code %d", got.ErrorCode)
		}
		waiting.closed()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Shutdown did not wait for the append: %v", err)
		default:
		}
		d.fake.release()
		if got := produced(producing.receive(produce, 1).(*kmsg.ProduceResponse)); got.ErrorCode != 0 {
			t.Errorf("the Produce under way got code %d", got.ErrorCode)
		}
		producing.closed()
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

func TestShutdownEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.fake.hold = true
		c := d.dial()
		c.send(produceRequest(9, -1, "t", batch(nil, record{value: "x"})))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if err := d.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.ConnectionsMax = 2 })
		first, second := d.dial(), d.dial()
		d.dial().closed()
		meta := at(kmsg.NewPtrMetadataRequest(), 9)
		ask[*kmsg.MetadataResponse](second, meta)
		_ = first.conn.Close()
		synctest.Wait()
		ask[*kmsg.MetadataResponse](d.dial(), meta)
	})
}

func TestConnectionsPerAddressAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.ConnectionsPerIPMax = 1 })
		ask[*kmsg.MetadataResponse](d.dial(), at(kmsg.NewPtrMetadataRequest(), 9))
		d.dial().closed()
		if log := d.wholeLog(); !strings.Contains(log, "ConnectionsPerIPMax") {
			t.Errorf("the log does not say why: %s", log)
		}
	})
}

func TestFramesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.InFlightBytesMax, c.InFlightWait = 2000, 10*time.Second })
		d.fake.topic("t", 1)
		d.fake.hold = true
		first, second := d.dial(), d.dial()
		large := produceRequest(9, -1, "t", batch(nil, record{value: strings.Repeat("x", 1500)}))
		first.send(large)
		synctest.Wait()

		// There is no room for it: it waits, and is let in when there is.
		go second.send(large)
		synctest.Wait()
		if n := len(d.fake.held); n != 1 {
			t.Fatalf("%d appends are under way, want 1", n)
		}
		d.fake.release()
		first.receive(large, 1)
		synctest.Wait()
		if n := len(d.fake.held); n != 1 {
			t.Fatalf("%d appends are under way, want the second", n)
		}

		// No room comes: refused after InFlightWait.
		third := d.dial()
		began := time.Now()
		go func() { _, _ = third.conn.Write(third.fmt.AppendRequest(nil, large, 1)) }()
		third.closed()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("refused after %v", took)
		}
		d.fake.release()
		second.receive(large, 1)
	})
}

// Frames that only claim to be large, or that come slowly, keep nobody out.
func TestLargeFramesUnderWayLeaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.InFlightBytesMax = 5 << 20 })
		d.fake.topic("t", 1)
		start := []byte("\x06\x40\x00\x00\x00\x00\x00\x09\x00\x00\x00\x01") // a Produce of 100 MiB
		began := time.Now()
		for range 8 {
			c := d.dial()
			if _, err := c.conn.Write(start); err != nil {
				t.Fatal(err)
			}
		}
		slow := d.dial()
		if _, err := slow.conn.Write(append(start, make([]byte, 2<<20)...)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if free := d.room.large.free; free != 0 {
			t.Fatalf("large frames left %d bytes to other large ones, the test means nothing", free)
		}
		ask[*kmsg.MetadataResponse](d.dial(), at(kmsg.NewPtrMetadataRequest(), 9))
		ask[*kmsg.ProduceResponse](d.dial(), produceRequest(9, -1, "t", batch(nil, record{value: strings.Repeat("x", 300<<10)})))
		if took := time.Since(began); took != 0 {
			t.Errorf("the others waited %v", took)
		}
		<-time.After(15 * time.Second) // the claims have had their ten seconds
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		if n := len(d.conns); n != 3 {
			t.Errorf("%d connections are left, want the slow one and the two that asked", n)
		}
	})
}

func TestRequestIsChargedWithItsDecoding(t *testing.T) {
	t.Parallel()
	d := open(t)
	held := make(chan share, 1)
	d.apis[60].handle = func(_ *conn, _ context.Context, r *request) (kmsg.Response, error) {
		held <- r.share
		return r.body.ResponseKind(), nil
	}
	c := d.dial()
	req := at(kmsg.NewPtrDescribeClusterRequest(), 0)
	ask[*kmsg.DescribeClusterResponse](c, req)
	n := int64(len(c.fmt.AppendRequest(nil, req, 1)) - prefixBytes)
	if got := <-held; got != (share{small: n * expandsMax}) {
		t.Errorf("a frame of %d bytes holds %+v, want %d times as much", n, got, expandsMax)
	}
}

// Two frames whose decoding may take all the room there is are served all the same.
func TestDecodingNeverWaitsForItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		req := metadataRequest(9, false)
		for i := range 9000 {
			req.Topics = append(req.Topics, metadataRequest(9, false, fmt.Sprintf("%0200d", i)).Topics...)
		}
		began := time.Now()
		first, second := d.dial(), d.dial()
		first.send(req)
		second.send(req)
		first.receive(req, 1)
		second.receive(req, 1)
		if took := time.Since(began); took != 0 {
			t.Errorf("answered after %v", took)
		}
	})
}

// Idle consumers must not keep producers out.
func TestWaitingFetchesTakeLittleOfTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.InFlightBytesMax = 400 << 10 })
		d.fake.topic("quiet", 1)
		d.fake.topic("t", 1)
		began := time.Now()
		for range 50 {
			d.dial().send(fetchRequest(11, "quiet", 0, time.Minute))
		}
		synctest.Wait()
		ask[*kmsg.ProduceResponse](d.dial(), produceRequest(9, -1, "t", batch(nil, record{value: strings.Repeat("x", 16<<10)})))
		if took := time.Since(began); took != 0 {
			t.Errorf("the producer waited %v", took)
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

func TestServeSurvivesAcceptErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(t.Context(), Config{Engine: newFake()})
		if err != nil {
			t.Fatal(err)
		}
		l := &failingListener{pipes: newPipes(), errs: []error{&net.DNSError{IsTimeout: true}, &net.DNSError{IsTimeout: true}}}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		c := &client{t: t, conn: l.dial(), fmt: kmsg.NewRequestFormatter()}
		ask[*kmsg.MetadataResponse](c, at(kmsg.NewPtrMetadataRequest(), 9))
		_ = c.conn.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// failingListener fails a few times before it works.
type failingListener struct {
	*pipes
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return l.pipes.Accept()
}

func TestBudgetServesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		ctx := t.Context()
		if _, err := b.take(ctx, 8); err != nil {
			t.Fatal(err)
		}
		var order []string
		take := func(name string, n int64) {
			go func() {
				took, err := b.take(ctx, n)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				order = append(order, name)
				b.give(took)
			}()
			synctest.Wait()
		}
		take("large", 10)
		take("small", 1) // fits, but must not overtake
		b.give(8)
		synctest.Wait()
		if got := strings.Join(order, " "); got != "large small" {
			t.Errorf("served %q", got)
		}

		// One that gives up lets the next pass.
		if _, err := b.take(ctx, 5); err != nil {
			t.Fatal(err)
		}
		impatient, cancel := context.WithCancelCause(ctx)
		gaveUp := make(chan error)
		go func() {
			_, err := b.take(impatient, 6)
			gaveUp <- err
		}()
		synctest.Wait()
		order = nil
		take("small", 1)
		if len(order) != 0 {
			t.Error("the small one overtook the large one")
		}
		cancel(queen.ErrOverloaded)
		if err := <-gaveUp; !errors.Is(err, queen.ErrOverloaded) {
			t.Errorf("take: %v", err)
		}
		synctest.Wait()
		if len(order) != 1 {
			t.Error("the small one still waits behind one that gave up")
		}
	})
}
