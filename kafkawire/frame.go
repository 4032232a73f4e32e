package kafkawire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A request frame, as bytes:
//
//	int32 size | int16 key | int16 version | int32 correlation id
//	           | int16-prefixed client id (nullable) | tags (flexible only) | body
//
// The prefix is what is read before anything is allocated: with it the API
// table gives the size limit of this very request.
const prefixBytes = 12

// frameStep is how much of a frame is believed before its bytes come, so that a
// declared size costs its sender as much as it costs us.
const frameStep = 64 << 10

var (
	// errHangUp: the peer closed the connection between two frames.
	errHangUp = errors.New("connection closed by the client")
	errIdle   = errors.New("idle for too long")
)

// badFrame is why a frame was not understood; it closes the connection.
type badFrame struct{ reason string }

func (e *badFrame) Error() string { return e.reason }

func badFramef(format string, args ...any) error {
	return &badFrame{reason: fmt.Sprintf(format, args...)}
}

// prefix is a frame's first twelve bytes, checked by nobody yet.
type prefix struct {
	size          int32 // of what follows the size field itself
	key           int16
	version       int16
	correlationID int32
}

func parsePrefix(b [prefixBytes]byte) prefix {
	return prefix{
		size:          int32(binary.BigEndian.Uint32(b[0:])),
		key:           int16(binary.BigEndian.Uint16(b[4:])),
		version:       int16(binary.BigEndian.Uint16(b[6:])),
		correlationID: int32(binary.BigEndian.Uint32(b[8:])),
	}
}

// checkSize judges a size field on its own, before the key is known.
func checkSize(b [4]byte, bytesMax int) error {
	size := int32(binary.BigEndian.Uint32(b[:]))
	switch s := string(b[:]); {
	case s == "GET " || s == "POST" || s == "HEAD" || s == "PUT " || s == "DELE" || s == "OPTI" || s == "CONN" || s == "PRI ":
		return badFramef("an HTTP request came to the Kafka port")
	case b[0] == 0x16 && b[1] == 0x03:
		return badFramef("a TLS handshake came to the plaintext Kafka port")
	case size < prefixBytes-4+2:
		return badFramef("frame size %d is too small", size)
	case int64(size) > int64(bytesMax):
		return badFramef("frame size %d is above the limit of %d", size, bytesMax)
	}
	return nil
}

// readBody reads the n bytes after the prefix. Before each step of them it calls
// step with how many they are; a large frame comes in several, the second of
// which is the rest. What is above frameStep lies in memory of newFrame, unless
// it is very large: that grows as its bytes come.
func readBody(r io.Reader, n int, step func(next int) error) ([]byte, error) {
	first := min(n, frameStep)
	if err := step(first); err != nil {
		return nil, err
	}
	if first == n {
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	b := newFrame(first)
	defer reuseFrame(b)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	if err := step(n - first); err != nil {
		return nil, err
	}
	if n <= pooledFrameBytesMax {
		whole := newFrame(n)
		copy(whole, b)
		if _, err := io.ReadFull(r, whole[first:]); err != nil {
			return nil, err
		}
		return whole, nil
	}
	for have := first; have < n; {
		grown := make([]byte, min(n, max(largePiece, 2*have)))
		copy(grown, b)
		m, err := io.ReadFull(r, grown[have:])
		if err != nil {
			return nil, err
		}
		b, have = grown, have+m
	}
	return b, nil
}

// parseHeader takes the rest of the request header off b.
func parseHeader(b []byte, flexible bool) (clientID *string, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, badFramef("request header is cut short")
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	switch {
	case n < -1 || n > len(b):
		return nil, nil, badFramef("client id of %d bytes in a frame with %d left", n, len(b))
	case n >= 0:
		id := string(b[:n])
		clientID, b = &id, b[n:]
	}
	if flexible {
		if b, err = skipTags(b); err != nil {
			return nil, nil, err
		}
	}
	return clientID, b, nil
}

// skipTags takes a buffer of tagged fields off b (KIP-482).
func skipTags(b []byte) ([]byte, error) {
	count, b, err := takeUvarint(b)
	if err != nil {
		return nil, err
	}
	for ; count > 0; count-- {
		var size uint32
		if _, b, err = takeUvarint(b); err != nil {
			return nil, err
		}
		if size, b, err = takeUvarint(b); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(b)) {
			return nil, badFramef("tagged field of %d bytes with %d left", size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

func takeUvarint(b []byte) (uint32, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > math.MaxUint32 {
		return 0, nil, badFramef("bad variable-length number")
	}
	return uint32(v), b[n:], nil
}

// encode puts a whole reply frame into w. The reply to ApiVersions has a header
// without tags in every version, since its reader may not know ours yet.
func (w *splicer) encode(correlationID int32, resp kmsg.Response) error {
	w.b = append(w.b, 0, 0, 0, 0)
	w.int32(correlationID)
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		w.b = append(w.b, 0)
	}
	if s, ok := resp.(spliced); ok {
		s.splice(w)
	} else {
		w.b = resp.AppendTo(w.b)
	}
	w.flush()
	size := w.size() - 4
	if size > math.MaxInt32 {
		return fmt.Errorf("reply of %d bytes does not fit a frame", size)
	}
	binary.BigEndian.PutUint32(w.bufs[0], uint32(size))
	return nil
}

// size is the number of bytes flushed.
func (w *splicer) size() int {
	n := 0
	for _, b := range w.bufs {
		n += len(b)
	}
	return n
}
