package kafkawire

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Every size has one place, at most a fifth of a buffer is idle, and what is given
// back is found again by whoever needs that much.
func TestPooledFrameSizes(t *testing.T) {
	t.Parallel()
	sizes := map[int]int{}
	for n := frameStep; n <= pooledFrameBytesMax; n += 61 {
		class, size := pooledFrameClass(n)
		if size < n || (size-n)*5 >= size {
			t.Fatalf("%d bytes lie in a buffer of %d", n, size)
		}
		if class < 0 || class >= len(pooledFrames) {
			t.Fatalf("%d bytes have place %d of %d", n, class, len(pooledFrames))
		}
		if was, ok := sizes[class]; ok && was != size {
			t.Fatalf("place %d is of buffers of %d and of %d bytes", class, was, size)
		}
		sizes[class] = size
		if again, exact := pooledFrameClass(size); again != class || exact != size {
			t.Fatalf("a buffer of %d bytes goes to place %d as one of %d, not to %d", size, again, exact, class)
		}
	}
	if class, size := pooledFrameClass(pooledFrameBytesMax); class != len(pooledFrames)-1 || size != pooledFrameBytesMax || len(sizes) != len(pooledFrames) {
		t.Fatalf("the largest is of %d bytes in place %d of %d, %d sizes are used", size, class, len(pooledFrames), len(sizes))
	}
}

// The room reads batches where they came in until they are stored, which may be
// long after their client was answered or has gone.
func TestFrameIsKeptUntilItsAppendsAreDone(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := open(t)
			d.fake.topic("t", 1)
			d.fake.hold = true
			c := d.dial()
			large := func(letter string) *kmsg.ProduceRequest {
				return produceRequest(9, -1, "t", batch(nil, record{value: strings.Repeat(letter, 2*frameStep)}))
			}
			first := large("a")
			c.send(first)
			if gone {
				synctest.Wait()
				_ = c.conn.Close()
			} else if got := produced(c.receive(first, 1).(*kmsg.ProduceResponse)); got.ErrorCode != codeRequestTimedOut {
				t.Fatalf("an append that is never done is answered %d", got.ErrorCode)
			}
			<-time.After(time.Minute)
			synctest.Wait()
			if held := d.held(); held < 2*frameStep {
				t.Errorf("the room of a frame that is still read is given away: %d bytes are held", held)
			}
			d.fake.mu.Lock()
			d.fake.hold = false
			d.fake.mu.Unlock()
			other := d.dial()
			for range 3 {
				ask[*kmsg.ProduceResponse](other, large("b"))
			}
			if !bytes.Equal(d.fake.batches[0], first.Topics[0].Partitions[0].Records) {
				t.Error("other frames came into the memory of one that is still read")
			}
			d.fake.release()
			synctest.Wait()
			if held := d.held(); held != 0 {
				t.Errorf("%d bytes are held when all is done", held)
			}
		})
	}
}
