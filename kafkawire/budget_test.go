package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// held is how much of the room is taken.
func (d *door) held() int64 {
	n := int64(0)
	for _, b := range d.room.parts {
		n += b.size - b.free
	}
	return n
}

// commitRequest is an OffsetCommit of about that many bytes.
func commitRequest(group string, bytes int) *kmsg.OffsetCommitRequest {
	r := at(kmsg.NewPtrOffsetCommitRequest(), 8)
	r.Group, r.Generation = group, -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "t"
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Metadata = kmsg.StringPtr(strings.Repeat("m", 1000))
	for range bytes / 1000 {
		topic.Partitions = append(topic.Partitions, p)
	}
	r.Topics = append(r.Topics, topic)
	return r
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
		if free := d.room.parts[roomLarge].free; free != 0 {
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

// Who waits for room holds none of what the others wait for: however many frames come
// at once, each is served when it is its turn.
func TestManyFramesAtOnceAreServedInTurn(t *testing.T) {
	t.Parallel()
	for what, size := range map[string]int{"in one piece": 20 << 10, "of two pieces": 500 << 10, "with a large rest": 1200 << 10} {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, func(c *Config) { c.InFlightBytesMax = 10 << 20 })
			d.fake.topic("t", 1)
			produce := produceRequest(9, -1, "t", batch(nil, record{value: strings.Repeat("x", size)}))
			// As large, but with a decoding that is charged.
			commit := commitRequest("g", size)
			began := time.Now()
			var all sync.WaitGroup
			others := make(chan struct{})
			for i := range 2 * (10 << 20) / frameStep {
				all.Go(func() {
					c, req := d.dial(), kmsg.Request(produce)
					if i%2 == 0 {
						req = commit
					}
					frame := c.fmt.AppendRequest(nil, req, 1)
					part := min(len(frame), frameStep+ownBytes) / 2
					_, _ = c.conn.Write(frame[:part])
					<-others // have sent as much, or wait for room
					_, _ = c.conn.Write(frame[part:])
					if _, _, err := c.frame(); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				})
			}
			synctest.Wait()
			close(others)
			all.Wait()
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: it took %v", what, took)
			}
		})
	}
}

// Clients that stop in the middle of a frame, be it at its first bytes, keep nobody
// out who asks something short.
func TestHalfOpenClientsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.InFlightBytesMax = 10 << 20 })
		start := []byte("\x00\x10\x00\x08\x00\x03\x00\x01\x00\x00\x00\x01") // a Metadata of 1 MiB
		began := time.Now()
		for i := range 600 {
			sent := start
			if i%2 == 0 {
				sent = append(start[:prefixBytes:prefixBytes], make([]byte, ownBytes+100)...)
			}
			go func() { _, _ = d.dial().conn.Write(sent) }()
		}
		synctest.Wait()
		if d.room.parts[roomFirst].queue.Len() == 0 {
			t.Fatal("nobody waits for room, the test means nothing")
		}
		ask[*kmsg.MetadataResponse](d.dial(), at(kmsg.NewPtrMetadataRequest(), 9))
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
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
	if got := <-held; got != (share{roomServe: n * expandsMax}) {
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
		var read sync.WaitGroup // whoever is served first: the other waits until that answer is read
		for _, c := range []*client{first, second} {
			read.Go(func() {
				if _, _, err := c.frame(); err != nil {
					t.Errorf("no answer: %v", err)
				}
			})
		}
		read.Wait()
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

// A frame that has all its bytes, and decodes into no more, waits behind nobody: it
// holds what others wait for.
func TestNoBytesAreTakenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(100)
		var all, waiting share
		if !r.tryTake(&all, roomRest, 20) {
			t.Fatal("an empty room has no room")
		}
		go func() { _ = r.take(t.Context(), &waiting, roomRest, 1) }()
		synctest.Wait()
		if r.parts[roomRest].queue.Len() != 1 {
			t.Fatal("nobody waits, the test means nothing")
		}
		if !r.tryTake(new(share), roomRest, 0) {
			t.Error("no bytes had to wait")
		}
		if !r.tryTake(&all, roomRest, 5) {
			t.Error("a frame with all of its part had to wait for more")
		}
		r.leave(&all)
		synctest.Wait()
	})
}
