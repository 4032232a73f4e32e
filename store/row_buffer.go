package store

import (
	"math/bits"
	"sync"
)

// The data of segments read comes in memory that is used again where the reader
// gives it back: a consumer that catches up reads hundreds of megabytes a second,
// which would have to be cleared first and collected afterwards.
//
// Buffers have four sizes for each doubling between these two, so that at most a
// fifth of one is idle. The upper one is above a segment's usual bound, or a
// batch's; other sizes are left to the collector.
const (
	rowBufferBytesMin = 32 << 10
	rowBufferBytesMax = 2 << 20
)

var rowBuffers [4*6 + 1]sync.Pool // TestRowBufferSizes

// rowBuffer is a bytea column read into such memory; NULL is nil.
type rowBuffer struct{ b []byte }

// ScanBytes implements pgtype.BytesScanner.
func (r *rowBuffer) ScanBytes(v []byte) error {
	r.b = nil
	if v != nil {
		r.b = append(Borrow(len(v)), v...)
	}
	return nil
}

// Borrow is an empty slice with room for n bytes, which may be recycled.
func Borrow(n int) []byte {
	if n < rowBufferBytesMin || n > rowBufferBytesMax {
		return make([]byte, 0, n)
	}
	class, size := rowBufferClass(n)
	if b, ok := rowBuffers[class].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, size)
}

// rowBufferClass is the smallest size that holds n bytes, and its place among them.
func rowBufferClass(n int) (class, size int) {
	n = max(n, rowBufferBytesMin)
	step := bits.Len(uint(n)) - 3 // of a quarter of the power of two at or below n
	quarters := (n + 1<<step - 1) >> step
	return 4*(step+2-bits.Len(rowBufferBytesMin-1)) + quarters - 4, quarters << step
}

// Recycle takes back the Data of a SegmentRow that Read returned, or what was
// borrowed. Nothing may look at it any more.
func Recycle(data []byte) {
	n := cap(data)
	if n < rowBufferBytesMin || n > rowBufferBytesMax {
		return
	}
	if class, size := rowBufferClass(n); size == n {
		rowBuffers[class].Put(&data)
	}
}
