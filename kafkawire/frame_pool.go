package kafkawire

import (
	"math/bits"
	"sync"
)

// Large frames of records come in memory that is used again: fresh memory for
// each would be cleared first, and make the collector's heap as large as what
// arrives between two of its runs.
//
// Buffers have four sizes for each doubling between frameStep and this, so that
// at most a fifth of one is idle. Larger frames are rare, and left to the
// collector, as are those that are not given back. (The ledger keeps rows it reads in
// the same way, store/row_buffer.go: these few lines are worth no package that both import.)
const pooledFrameBytesMax = 16 << 20

var pooledFrames [4*8 + 1]sync.Pool // TestPooledFrameSizes

// newFrame is a buffer of n bytes, frameStep to pooledFrameBytesMax, with anything in it.
func newFrame(n int) []byte {
	class, size := pooledFrameClass(n)
	if b, ok := pooledFrames[class].Get().(*[]byte); ok {
		return (*b)[:n]
	}
	return make([]byte, n, size)
}

// pooledFrameClass is the smallest size that holds n bytes, and its place among them.
func pooledFrameClass(n int) (class, size int) {
	step := bits.Len(uint(n)) - 3 // of a quarter of the power of two at or below n
	quarters := (n + 1<<step - 1) >> step
	return 4*(step+2-bits.Len(frameStep-1)) + quarters - 4, quarters << step
}

// reuseFrame gives a buffer of newFrame back. Nothing may look at it any more.
func reuseFrame(b []byte) {
	n := cap(b)
	if n < frameStep || n > pooledFrameBytesMax {
		return
	}
	if class, size := pooledFrameClass(n); size == n {
		pooledFrames[class].Put(&b)
	}
}
