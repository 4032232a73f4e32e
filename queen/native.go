package queen

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// The record headers in which a batch of native origin carries what a Kafka
// record has no field for. They come first, in this order, each only where it
// is needed. In a batch of Kafka origin the same names are the client's data.
//
// A message whose own first header happens to have such a name gets ours, with
// the value null, in front of it: so reading takes off what writing put on,
// and nothing else.
const (
	headerTransactionID = "queen-transaction-id"
	headerTraceID       = "queen-trace-id"
)

// nativeHeader is what precedes a message's own headers for one of the names.
type nativeHeader struct {
	present bool
	value   []byte // nil: a guard
}

// nativeHeaders decides which of our headers m needs.
func nativeHeaders(m *Message) (id, trace nativeHeader) {
	first := ""
	if len(m.Headers) > 0 {
		first = m.Headers[0].Key
	}
	id = nativeHeader{present: m.ID != nil, value: m.ID}
	if m.TraceID != "" {
		trace = nativeHeader{present: true, value: []byte(m.TraceID)}
	} else if first == headerTraceID {
		trace.present = true
	}
	if !id.present && !trace.present && first == headerTransactionID {
		id.present = true
	}
	return id, trace
}

// stripNative undoes nativeHeaders: it takes our headers off and returns what they said.
func stripNative(r *record) (id []byte, trace string, own record) {
	own = *r
	if value, ok := own.takeHeader(headerTransactionID); ok {
		id = value
	}
	if value, ok := own.takeHeader(headerTraceID); ok {
		trace = string(value)
	}
	return id, trace, own
}

// takeHeader removes the first header if it has that name.
func (r *record) takeHeader(name string) (value []byte, ok bool) {
	if r.headerCount == 0 {
		return nil, false
	}
	key, value, rest := readHeader(r.headers)
	if string(key) != name {
		return nil, false
	}
	r.headers, r.headerCount = rest, r.headerCount-1
	return value, true
}

// nativeSize is the size of a batch that holds only m. A caller refuses a
// message for which it exceeds the queue's limit; appendNative does not.
func nativeSize(m *Message) int {
	body := nativeBodySize(m, 0)
	return batchHeaderLen + varintSize(int64(body)) + body
}

func nativeBodySize(m *Message, delta int) int {
	id, trace := nativeHeaders(m)
	n := 1 + 1 + varintSize(int64(delta)) + bytesSize(m.Key) + bytesSize(m.Value)
	count := len(m.Headers)
	if id.present {
		n += bytesSize([]byte(headerTransactionID)) + bytesSize(id.value)
		count++
	}
	if trace.present {
		n += bytesSize([]byte(headerTraceID)) + bytesSize(trace.value)
		count++
	}
	for i := range m.Headers {
		key := len(m.Headers[i].Key)
		n += varintSize(int64(key)) + key + bytesSize(m.Headers[i].Value)
	}
	return n + varintSize(int64(count))
}

func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

// appendNative appends msgs, in order, as uncompressed record batches with the
// timestamp now: as few as fit into batchBytesMax each. A message that is too
// large by itself becomes a batch of its own, over the limit. The marks are
// those of the batches appended, in order.
func appendNative(dst []byte, msgs []*Message, now time.Time, batchBytesMax int) (data []byte, marks []batchMark) {
	ms := now.UnixMilli()
	for len(msgs) > 0 {
		start, n := len(dst), 0
		explicit := false
		dst = append(dst, make([]byte, batchHeaderLen)...)
		for _, m := range msgs {
			body := nativeBodySize(m, n)
			size := varintSize(int64(body)) + body
			if n > 0 && len(dst)-start+size > batchBytesMax {
				break
			}
			dst = appendNativeRecord(dst, m, n, body)
			explicit = explicit || m.ID != nil
			n++
		}
		sealBatch(dst[start:], n, ms)
		mark := batchMark{
			Length: uint32(len(dst) - start), Span: uint32(n), Records: uint32(n),
			Origin: originNative, IDs: idsMinted, MaxTimestamp: ms,
		}
		if explicit {
			mark.IDs = idsNativeHeader
		}
		marks = append(marks, mark)
		msgs = msgs[n:]
	}
	return dst, marks
}

func appendNativeRecord(dst []byte, m *Message, delta, body int) []byte {
	dst = appendVarint(dst, int64(body))
	dst = append(dst, 0, 0) // attributes; timestamp delta
	dst = appendVarint(dst, int64(delta))
	dst = appendBytes(dst, m.Key)
	dst = appendBytes(dst, m.Value)
	id, trace := nativeHeaders(m)
	count := len(m.Headers)
	if id.present {
		count++
	}
	if trace.present {
		count++
	}
	dst = appendVarint(dst, int64(count))
	if id.present {
		dst = appendHeader(dst, headerTransactionID, id.value)
	}
	if trace.present {
		dst = appendHeader(dst, headerTraceID, trace.value)
	}
	for i := range m.Headers {
		dst = appendHeader(dst, m.Headers[i].Key, m.Headers[i].Value)
	}
	return dst
}

func appendHeader(dst []byte, key string, value []byte) []byte {
	dst = appendVarint(dst, int64(len(key)))
	dst = append(dst, key...)
	return appendBytes(dst, value)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // −1 in zigzag form
	}
	dst = appendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

// sealBatch writes the header of b, whose n uncompressed records all have the
// timestamp ms. Base offset and epoch stay 0 until patchBatch.
func sealBatch(b []byte, n int, ms int64) {
	binary.BigEndian.PutUint32(b[batchAtLength:], uint32(len(b)-batchAtEpoch))
	b[batchAtMagic] = batchMagic
	binary.BigEndian.PutUint32(b[batchAtLastDelta:], uint32(n-1))
	binary.BigEndian.PutUint64(b[batchAtBaseTimestamp:], uint64(ms))
	binary.BigEndian.PutUint64(b[batchAtMaxTimestamp:], uint64(ms))
	for i := batchAtProducerID; i < batchAtCount; i++ {
		b[i] = 0xff // producer id, epoch and base sequence: −1, none
	}
	binary.BigEndian.PutUint32(b[batchAtCount:], uint32(n))
	binary.BigEndian.PutUint32(b[batchAtCRC:], crc32.Checksum(b[batchAtAttributes:], castagnoli))
}
