package queen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// levelDefault is the level of a codec where nobody chose one.
const levelDefault = math.MinInt

// recompression is how a queue stores the batches of Kafka clients.
type recompression struct {
	codec int8 // −1: as sent
	level int
}

// recompressionOf reads it from a queue's options: compression.type, and the
// codec's compression.….level, which was checked when it was set.
func recompressionOf(o *QueueOptions) recompression {
	r := recompression{codec: codecOf(o.Compression), level: levelDefault}
	if r.codec > codecNone {
		if level, ok := o.Configs["compression."+codecNames[r.codec]+".level"]; ok {
			if n, err := strconv.Atoi(level); err == nil {
				r.level = n
			}
		}
	}
	return r
}

// keeps says whether a batch stays as it was sent.
func (r recompression) keeps(info *batchInfo) bool { return r.codec < 0 || r.codec == info.Codec }

// apply returns a checked batch in the queue's codec, and what it says then. The
// records stay what they are, byte for byte. A batch in that codec stays as sent.
func (r recompression) apply(b []byte, info batchInfo, decompressedMax int) ([]byte, batchInfo, error) {
	if r.keeps(&info) {
		return b, info, nil
	}
	records := b[batchHeaderLen:]
	if info.Codec != codecNone {
		scratch := recordBuffers.Get().(*recordBuffer)
		defer scratch.release()
		var err error
		if records, err = decompress(scratch.b, info.Codec, records, decompressedMax); err != nil {
			return nil, info, err
		}
		scratch.b = records
	}
	d, err := packBatch(b[:batchHeaderLen], r.codec, r.level, records)
	if err != nil {
		return nil, info, fmt.Errorf("recompress: %w", err)
	}
	binary.BigEndian.PutUint32(d[batchAtCRC:], crc32.Checksum(d[batchAtAttributes:], castagnoli))
	info.Codec = r.codec
	return d, info, nil
}

// packBatch is a batch of these records under a header like the one given: with
// codec and length of its own, the rest, and the CRC, being the caller's to set.
func packBatch(header []byte, codec int8, level int, records []byte) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, batchHeaderLen+len(records)/2))
	buf.Write(header)
	if err := compress(buf, codec, level, records); err != nil {
		return nil, err
	}
	d := buf.Bytes()
	attributes := binary.BigEndian.Uint16(d[batchAtAttributes:])
	binary.BigEndian.PutUint16(d[batchAtAttributes:], attributes&^attrCodecMask|uint16(codec))
	binary.BigEndian.PutUint32(d[batchAtLength:], uint32(len(d)-batchAtEpoch))
	return d, nil
}

// compress appends src to dst as one stream of the codec.
func compress(dst *bytes.Buffer, codec int8, level int, src []byte) error {
	switch codec {
	case codecNone:
		dst.Write(src)
		return nil
	case codecGzip:
		if level == levelDefault {
			level = gzip.DefaultCompression
		}
		w, err := gzip.NewWriterLevel(dst, level)
		if err != nil {
			return err
		}
		if _, err := w.Write(src); err != nil {
			return err
		}
		return w.Close()
	case codecSnappy:
		compressSnappy(dst, src)
		return nil
	case codecLZ4:
		w := lz4.NewWriter(dst) // independent blocks by default, as Kafka's clients need
		if err := w.Apply(lz4.CompressionLevelOption(lz4Level(level))); err != nil {
			return err
		}
		if _, err := w.Write(src); err != nil {
			return err
		}
		return w.Close()
	case codecZstd:
		options := []zstd.EOption{zstd.WithEncoderConcurrency(1)}
		if level != levelDefault {
			options = append(options, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)))
		}
		w, err := zstd.NewWriter(dst, options...)
		if err != nil {
			return err
		}
		if _, err := w.Write(src); err != nil {
			return err
		}
		return w.Close()
	}
	return fmt.Errorf("codec %d: %w", codec, ErrUnsupportedCompression)
}

// lz4Level translates Kafka's level, 1 to 17: its default, 9, is the fast one.
func lz4Level(level int) lz4.CompressionLevel {
	levels := [...]lz4.CompressionLevel{
		lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9,
	}
	if level == levelDefault || level == 9 {
		return lz4.Fast
	}
	return levels[min(max(level, 1), len(levels))-1]
}

// xerialBlock is how much one block of Java's snappy frames holds.
const xerialBlock = 32 << 10

// compressSnappy writes the frames of Java's library, which all clients read: a
// header, then blocks with a length each.
func compressSnappy(dst *bytes.Buffer, src []byte) {
	dst.Write(xerialMagic)
	dst.Write([]byte{0, 0, 0, 1, 0, 0, 0, 1}) // version, and the oldest that can read it
	block := make([]byte, 0, snappy.MaxEncodedLen(xerialBlock))
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		b := snappy.Encode(block[:cap(block)], src[:n])
		dst.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
		dst.Write(b)
		src = src[n:]
	}
}
