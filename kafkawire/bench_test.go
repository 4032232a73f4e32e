// Under the race detector pools lose what they get at random.

//go:build !race

package kafkawire

import (
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkProduce is the door's part of a Produce: frame, table, decoding, reply.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 16 << 10, 1 << 20} {
		b.Run("size="+strconv.Itoa(size), func(b *testing.B) {
			c, in := onConn(b, forgetful{newFake()})
			frame := kmsg.NewRequestFormatter().AppendRequest(nil, produceRequest(9, -1, "t", batch(nil, record{value: strings.Repeat("x", size)})), 1)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(frame)
				exchange(b, c)
			}
		})
	}
}

// BenchmarkFetch is the door's part of a Fetch of one partition.
func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{100, 16 << 10, 900 << 10} {
		b.Run("size="+strconv.Itoa(size), func(b *testing.B) {
			c, in := onConn(b, holding(b, size))
			frame := kmsg.NewRequestFormatter().AppendRequest(nil, fetchRequest(11, "t", 0, 0), 1)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(frame)
				exchange(b, c)
			}
		})
	}
}
