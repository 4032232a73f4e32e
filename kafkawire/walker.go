package kafkawire

import (
	"encoding/binary"
)

// walker steps over the types of the protocol.
type walker struct {
	b        []byte
	flexible bool
	err      error
}

func (w *walker) skip(n int) {
	if w.err != nil {
		return
	}
	if n < 0 || n > len(w.b) {
		w.err = badFramef("a length of %d with %d bytes left", n, len(w.b))
		return
	}
	w.b = w.b[n:]
}

// length reads a length of size bytes, or a compact one; −1 is null.
func (w *walker) length(size int) int {
	if w.err != nil {
		return 0
	}
	if w.flexible {
		var v uint32
		v, w.b, w.err = takeUvarint(w.b)
		return int(v) - 1
	}
	if len(w.b) < size {
		w.err = badFramef("a length is cut short")
		return 0
	}
	b := w.b
	w.b = b[size:]
	if size == 2 {
		return int(int16(binary.BigEndian.Uint16(b)))
	}
	return int(int32(binary.BigEndian.Uint32(b)))
}

func (w *walker) count() int { return w.length(4) }

func (w *walker) text() { w.skip(max(0, w.length(2))) }

func (w *walker) bytes() { w.skip(max(0, w.length(4))) }

func (w *walker) tags() {
	if w.flexible && w.err == nil {
		w.b, w.err = skipTags(w.b)
	}
}
