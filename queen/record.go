package queen

import (
	"errors"
	"math/bits"
)

// record is one record of a batch. Its slices alias the batch's records and are
// good only as long as those are; see eachRecord.
type record struct {
	OffsetDelta int32
	Timestamp   int64
	Key, Value  []byte // nil is null
	headers     []byte // encoded, checked by readRecord
	headerCount int
}

// The lies a record can tell. They reach the client inside ErrInvalidRecord.
var (
	errRecordLength  = errors.New("its length is out of bounds")
	errRecordVarint  = errors.New("it holds an overlong or truncated varint")
	errRecordKey     = errors.New("its key reaches past its end")
	errRecordValue   = errors.New("its value reaches past its end")
	errRecordHeaders = errors.New("its headers contradict its length")
	errRecordRest    = errors.New("it holds bytes after its headers")
)

// recordBytesMin is the smallest record: seven fields of one byte each.
const recordBytesMin = 7

// readRecord checks the first record of b, completely, and reads it into r.
// r.Timestamp is left as the difference to the batch's base.
//
//	length varint | attributes i8 | timestamp delta varlong | offset delta varint |
//	key length varint, key | value length varint, value |
//	header count varint | (key length varint, key, value length varint, value)*
func readRecord(b []byte, r *record) (rest []byte, err error) {
	length, n := varint(b)
	if n == 0 {
		return nil, errRecordVarint
	}
	if length < recordBytesMin-1 || int64(length) > int64(len(b)-n) {
		return nil, errRecordLength
	}
	rest = b[n+int(length):]
	b = b[n+1 : n+int(length)] // past the attributes: all of their bits are unused
	if r.Timestamp, n = varlong(b); n == 0 {
		return nil, errRecordVarint
	}
	b = b[n:]
	if r.OffsetDelta, n = varint(b); n == 0 {
		return nil, errRecordVarint
	}
	b = b[n:]
	var ok bool
	if r.Key, b, ok = readBytes(b); !ok {
		return nil, errRecordKey
	}
	if r.Value, b, ok = readBytes(b); !ok {
		return nil, errRecordValue
	}
	count, n := varint(b)
	if n == 0 {
		return nil, errRecordVarint
	}
	b = b[n:]
	if count < 0 || int64(count)*2 > int64(len(b)) { // two lengths of one byte at least
		return nil, errRecordHeaders
	}
	r.headers, r.headerCount = b, int(count)
	for range count {
		key, after, ok := readBytes(b)
		if !ok || key == nil {
			return nil, errRecordHeaders
		}
		if _, b, ok = readBytes(after); !ok {
			return nil, errRecordHeaders
		}
	}
	if len(b) != 0 {
		return nil, errRecordRest
	}
	return rest, nil
}

// Headers decodes the record's headers; the values alias the record.
func (r *record) Headers() []Header {
	if r.headerCount == 0 {
		return nil
	}
	headers := make([]Header, 0, r.headerCount)
	rest := r.headers
	for range r.headerCount {
		var key, value []byte
		key, value, rest = readHeader(rest)
		headers = append(headers, Header{Key: string(key), Value: value})
	}
	return headers
}

// header is the value of the first header of that name, without decoding the others.
func (r *record) header(name string) (value []byte, ok bool) {
	rest := r.headers
	for range r.headerCount {
		var key, v []byte
		key, v, rest = readHeader(rest)
		if string(key) == name {
			return v, true
		}
	}
	return nil, false
}

// readHeader reads one header that readRecord has checked.
func readHeader(b []byte) (key, value, rest []byte) {
	key, b, _ = readBytes(b)
	value, b, _ = readBytes(b)
	return key, value, b
}

// readBytes reads a varint length, −1 for null, and that many bytes. Empty is not nil.
func readBytes(b []byte) (v, rest []byte, ok bool) {
	length, n := varint(b)
	if n == 0 || length < -1 || int64(length) > int64(len(b)-n) {
		return nil, nil, false
	}
	if length == -1 {
		return nil, b[n:], true
	}
	end := n + int(length)
	return b[n:end:end], b[end:], true
}

// varint reads a zigzag number of at most 5 bytes and 32 bits; n is 0 where there is none.
func varint(b []byte) (v int32, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		u := uint32(b[0])
		return int32(u>>1) ^ -int32(u&1), 1
	}
	return longVarint(b)
}

func longVarint(b []byte) (v int32, n int) {
	u, n := uvarint(b, 5)
	if u > 1<<32-1 {
		return 0, 0
	}
	return int32(uint32(u)>>1) ^ -int32(u&1), n
}

// varlong is varint with 64 bits in at most 10 bytes.
func varlong(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		u := int64(b[0])
		return u>>1 ^ -(u & 1), 1
	}
	u, n := uvarint(b, 10)
	return int64(u>>1) ^ -int64(u&1), n
}

func uvarint(b []byte, bytesMax int) (u uint64, n int) {
	for i, c := range b[:min(len(b), bytesMax)] {
		if i == 9 && c > 1 { // the 65th bit
			return 0, 0
		}
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return u, i + 1
		}
	}
	return 0, 0
}

// appendVarint appends n in zigzag form.
func appendVarint(dst []byte, n int64) []byte {
	u := uint64(n<<1) ^ uint64(n>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintSize is the number of bytes appendVarint takes for n.
func varintSize(n int64) int {
	u := uint64(n<<1) ^ uint64(n>>63)
	return (bits.Len64(u|1) + 6) / 7
}
