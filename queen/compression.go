package queen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The codecs of a record batch, as its attributes number them.
const (
	codecNone int8 = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// CompressionProducer as QueueOptions.Compression stores batches as they were sent.
const CompressionProducer = "producer"

// codecOf is the codec that compression.type names; −1 where it names none.
func codecOf(name string) int8 {
	if name == "uncompressed" {
		return codecNone
	}
	if i := slices.Index(codecNames[1:], name); i >= 0 {
		return int8(i + 1)
	}
	return -1
}

// recordBuffer is scratch space for decompressed records.
type recordBuffer struct{ b []byte }

// recordBufferBytesMax is the largest scratch buffer kept for another batch;
// one giant batch must not pin its memory.
const recordBufferBytesMax = 4 << 20

var recordBuffers = sync.Pool{New: func() any { return new(recordBuffer) }}

func (s *recordBuffer) release() {
	if s == nil || cap(s.b) > recordBufferBytesMax {
		return
	}
	recordBuffers.Put(s)
}

// errOverCap is a decoder's way to say that there is more than the cap.
var errOverCap = errors.New("over the cap")

// decompress appends the decompressed src to dst[:0]; more than limit bytes are
// ErrTooLarge. No length src declares is believed before it was compared with
// the limit, and memory grows with what really comes out.
func decompress(dst []byte, codec int8, src []byte, limit int) ([]byte, error) {
	var err error
	switch codec {
	case codecGzip:
		dst, err = gunzip(dst[:0], src, limit)
	case codecSnappy:
		dst, err = unsnappy(dst[:0], src, limit)
	case codecLZ4:
		dst, err = unlz4(dst[:0], src, limit)
	case codecZstd:
		dst, err = unzstd(dst[:0], src, limit)
	default:
		return nil, fmt.Errorf("codec %d: %w", codec, ErrUnsupportedCompression)
	}
	switch {
	case errors.Is(err, errOverCap):
		return nil, fmt.Errorf("records take more than %d bytes after decompression (%s): %w", limit, codecNames[codec], ErrTooLarge)
	case err != nil:
		return nil, fmt.Errorf("decompress records (%s): %w: %w", codecNames[codec], err, ErrInvalidRecord)
	}
	return dst, nil
}

// gzipReader is a decoder and its input; the input is dropped before it is pooled.
type gzipReader struct {
	gzip.Reader
	src bytes.Reader
}

var gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}

func gunzip(dst, src []byte, limit int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer func() {
		r.src.Reset(nil)
		gzipReaders.Put(r)
	}()
	r.src.Reset(src)
	if err := r.Reset(&r.src); err != nil {
		return nil, err
	}
	return readCapped(dst, r, len(src), limit)
}

// lz4Reader is gzipReader for lz4.
type lz4Reader struct {
	*lz4.Reader
	src bytes.Reader
}

var lz4Readers = sync.Pool{New: func() any { return &lz4Reader{Reader: lz4.NewReader(nil)} }}

const (
	lz4Magic            = 0x184d2204 // little-endian; neither legacy nor skippable frames
	lz4BlockIndependent = 0x20
)

func unlz4(dst, src []byte, limit int) ([]byte, error) {
	// Apache Kafka's own clients read only frames of independent blocks: what
	// they could not read back is not let in.
	if len(src) < 5 || binary.LittleEndian.Uint32(src) != lz4Magic || src[4]&lz4BlockIndependent == 0 {
		return nil, errors.New("no frame of independent blocks")
	}
	r := lz4Readers.Get().(*lz4Reader)
	defer func() {
		r.src.Reset(nil)
		lz4Readers.Put(r)
	}()
	r.src.Reset(src)
	r.Reset(&r.src)
	return readCapped(dst, r, len(src), limit)
}

// readCapped appends r to dst, growing it as data comes, until limit is passed.
func readCapped(dst []byte, r io.Reader, compressed, limit int) ([]byte, error) {
	if cap(dst) == 0 {
		dst = make([]byte, 0, min(max(4*compressed, 512), limit+1))
	}
	for {
		if len(dst) == cap(dst) {
			dst = append(make([]byte, 0, min(2*cap(dst), limit+1)), dst...)
		}
		// One byte beyond the limit tells "exactly at it" from "over it".
		n, err := r.Read(dst[len(dst):min(cap(dst), limit+1)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return nil, errOverCap
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return nil, err
		}
	}
}

// zstdWindowMax admits every level of the reference encoder. The window is a
// number here, not a buffer: the output itself is the history.
const zstdWindowMax = 128 << 20

// zstdDecoder is shared: it decodes as many batches at once as there are cores,
// and never writes beyond the capacity it is given.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdWindowMax), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic("BUG: zstd decoder options: " + err.Error())
	}
	return d
})

// zstdBlockMax is the most one block can decode to, and so how far a decoder
// that fails for lack of room can be from the end of that room.
const zstdBlockMax = 128 << 10

func unzstd(dst, src []byte, limit int) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, err
	}
	room := 4 * len(src)
	if h.HasFCS {
		if h.FrameContentSize > uint64(limit) {
			return nil, errOverCap
		}
		room = int(h.FrameContentSize)
	}
	roomMax := limit + 2*zstdBlockMax
	for room = max(room+2*zstdBlockMax, cap(dst)); ; room = 4 * room {
		room = min(room, roomMax)
		if cap(dst) < room {
			dst = make([]byte, 0, room)
		}
		out, err := zstdDecoder().DecodeAll(src, dst[:0:room])
		switch {
		case len(out) > limit, err != nil && room == roomMax && errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, errOverCap
		case err == nil:
			return out, nil
		case room == roomMax || len(out)+zstdBlockMax < room && !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, err
		}
		// Out of room, in the words of one of several errors. Decoding once more
		// into four times the room costs a third on top, and keeps memory in
		// proportion to what comes out.
	}
}

// snappy in Kafka comes bare, or in the frames of Java's xerial library: this
// magic, two version numbers, then blocks with a big-endian length each.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeaderLen = 16

func unsnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return appendSnappyBlock(dst, src, limit)
	}
	if len(src) < xerialHeaderLen {
		return nil, snappy.ErrCorrupt
	}
	for src = src[xerialHeaderLen:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, snappy.ErrCorrupt
		}
		n := int64(int32(binary.BigEndian.Uint32(src)))
		if n <= 0 || n > int64(len(src)-4) {
			return nil, snappy.ErrCorrupt
		}
		var err error
		if dst, err = appendSnappyBlock(dst, src[4:4+n], limit); err != nil {
			return nil, err
		}
		src = src[4+n:]
	}
	return dst, nil
}

// snappyRatioMax: the densest element copies 64 bytes and takes 3.
const snappyRatioMax = 22

func appendSnappyBlock(dst, block []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > limit-len(dst) {
		return nil, errOverCap
	}
	if n > snappyRatioMax*len(block) || !isPlainSnappy(block) {
		return nil, snappy.ErrCorrupt
	}
	at := len(dst)
	if cap(dst)-at < n {
		dst = append(make([]byte, 0, max(at+n, min(2*cap(dst), limit))), dst...)
	}
	out, err := snappy.Decode(dst[at:at+n], block)
	if err != nil {
		return nil, err
	}
	return dst[:at+len(out)], nil
}

// isPlainSnappy reports whether a block is free of what S2 adds to the format
// (a copy of offset 0 means "repeat"): our decoder reads it, other consumers
// would not.
func isPlainSnappy(block []byte) bool {
	_, at := binary.Uvarint(block)
	if at <= 0 {
		return false
	}
	for at < len(block) {
		tag := block[at]
		switch tag & 3 {
		case 0: // literal
			n := int(tag >> 2)
			if n >= 60 {
				bytes := n - 59 // of the length, which follows
				if at+bytes >= len(block) {
					return false
				}
				n = 0
				for i := bytes; i > 0; i-- {
					n = n<<8 | int(block[at+i])
				}
				at += bytes
			}
			at += n + 2
		case 1: // copy, offset of 11 bits
			if at+1 >= len(block) || tag>>5 == 0 && block[at+1] == 0 {
				return false
			}
			at += 2
		case 2:
			at += 3
		default:
			at += 5
		}
	}
	return at == len(block)
}
