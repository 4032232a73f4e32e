package kafkawire

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// heldByReplies is how much of the room for replies is taken.
func (d *door) heldByReplies() int64 {
	b := d.replies.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size - b.free
}

// Clients that ask for much and read nothing fill no memory. Who reads is answered as
// soon as they are cut off, and who asks for little at once.
func TestRepliesThatAreNotReadAreBounded(t *testing.T) {
	t.Parallel()
	const bound = 2 << 20
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.ReplyBytesMax = bound })
		d.fake.topic("t", 3000)
		all := at(kmsg.NewPtrMetadataRequest(), 9)
		size := int64(len(ask[*kmsg.MetadataResponse](d.dial(), all).AppendTo(nil)))
		synctest.Wait()
		if n := d.heldByReplies(); n != 0 || size < outKept {
			t.Fatalf("%d bytes are held when the reply of %d was read", n, size)
		}
		for range 100 {
			d.dial().send(all)
		}
		synctest.Wait()
		if n := d.heldByReplies(); n < bound/2 || n > bound {
			t.Errorf("replies hold %d bytes, %d are allowed", n, bound)
		}
		began := time.Now()
		ask[*kmsg.ApiVersionsResponse](d.dial(), at(kmsg.NewPtrApiVersionsRequest(), 0))
		if took := time.Since(began); took != 0 {
			t.Errorf("a short reply waited %v", took)
		}
		ask[*kmsg.MetadataResponse](d.dial(), all)
		if took := time.Since(began); took < replyPatience || took > d.cfg.InFlightWait {
			t.Errorf("a long one waited %v", took)
		}
		<-time.After(2 * time.Minute) // nobody wants more: those left have the time of their write
		synctest.Wait()
		if n := d.heldByReplies(); n != 0 {
			t.Errorf("%d bytes are held when all are gone", n)
		}
	})
}

// While a reply is read slowly it is there once: as it is written.
func TestDecodedReplyEndsBeforeItIsRead(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 3000)
	var gone atomic.Bool
	metadata := d.apis[3].handle
	d.apis[3].handle = func(c *conn, ctx context.Context, r *request) (kmsg.Response, error) {
		resp, err := metadata(c, ctx, r)
		runtime.SetFinalizer(&resp.(*kmsg.MetadataResponse).Topics[0].Partitions[0], func(any) { gone.Store(true) })
		return resp, err
	}
	all := at(kmsg.NewPtrMetadataRequest(), 9)
	c := d.dial()
	corr := c.send(all)
	for began := time.Now(); !gone.Load(); runtime.GC() {
		if time.Since(began) > time.Minute {
			t.Fatal("somebody still has it")
		}
	}
	c.receive(all, corr)
}

// A session may name many partitions, so that a few bytes ask for a large reply.
func TestErrorsOfAFetchTakeRoomOfReplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		full := fetchRequest(12, "none", 0, time.Minute)
		p := full.Topics[0].Partitions[0]
		for n := range int32(5000) {
			p.Partition = n + 1
			full.Topics[0].Partitions = append(full.Topics[0].Partitions, p)
		}
		full.SessionEpoch = epochInitial
		c := d.dial()
		made := ask[*kmsg.FetchResponse](c, full)
		next := fetchRequest(12, "none", 0, time.Minute)
		next.Topics, next.SessionID, next.SessionEpoch = nil, made.SessionID, 1
		corr := c.send(next)
		synctest.Wait()
		if n := d.heldByReplies(); n < 5000*30 {
			t.Errorf("a reply that is not read holds %d bytes", n)
		}
		if got := c.receive(next, corr).(*kmsg.FetchResponse); len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 5001 {
			t.Errorf("answered %d topics", len(got.Topics))
		}
		synctest.Wait()
		if n := d.heldByReplies(); n != 0 {
			t.Errorf("%d bytes are held when it is read", n)
		}
	})
}

// Who sends requests and reads no answer holds room for a few of them only.
func TestRequestsReadAheadHoldLittleRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		c := d.dial()
		const n = 60
		one := int64(0)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for i := range n {
				req := metadataRequest(9, false, fmt.Sprint("topic", i))
				frame := c.fmt.AppendRequest(nil, req, int32(i))
				one = int64(len(frame)) * expandsMax
				if _, err := c.conn.Write(frame); err != nil {
					t.Error(err)
				}
			}
		}()
		synctest.Wait()
		if held := d.held(); held > aheadBytesMax+one {
			t.Errorf("requests that wait for their turn hold %d bytes, one has %d", held, one)
		}
		for i := range n {
			if corr, _, err := c.frame(); err != nil || corr != int32(i) {
				t.Fatalf("reply %d, %v, want %d", corr, err, i)
			}
		}
		<-sent
	})
}

func TestWhatRepliesHadLatelyIsForgotten(t *testing.T) {
	t.Parallel()
	var l lately
	l.saw(10 << 20)
	l.saw(100)
	if n := l.bytes.Load(); n < 8<<20 || n >= 10<<20 {
		t.Errorf("%d bytes after a short reply", n)
	}
	for range 200 {
		l.saw(100)
	}
	if n := l.bytes.Load(); n != 100 {
		t.Errorf("%d bytes after many short replies", n)
	}
}
