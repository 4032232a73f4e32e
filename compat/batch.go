package compat

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batch describes one record batch of magic 2, true or not: every field of the
// header that a case may want to lie about can be set.
type batch struct {
	records    []kmsg.Record
	producer   int64 // with epoch and seq; noProducer leaves all three out
	epoch      int16
	seq        int32
	attributes int16
	timestamp  int64                     // of the first record
	count      int32                     // claimed number of records; 0 tells the truth
	codec      *kgo.CompressionCodec     // nil: as they are
	mangle     func(b *kmsg.RecordBatch) // before the CRC is made
}

const noProducer = -1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Offsets in a record batch, and where the CRC begins to count.
const (
	batchMagicAt      = 16
	batchCRCAt        = 17
	batchAttributesAt = 21
	batchHeaderSize   = 61
)

// today is when this process started: two brokers that are compared are sent the same.
var today = time.Now().UnixMilli()

// values makes a plain batch of records with these values, of today.
func values(vs ...string) batch {
	b := batch{producer: noProducer, epoch: -1, seq: -1, timestamp: today}
	for _, v := range vs {
		b.records = append(b.records, kmsg.Record{Value: []byte(v)})
	}
	return b
}

// from makes a batch the next of an idempotent producer.
func (b batch) from(producer int64, epoch int16, seq int32) batch {
	b.producer, b.epoch, b.seq = producer, epoch, seq
	return b
}

// at sets the time of the records.
func (b batch) at(timestamp int64) batch {
	b.timestamp = timestamp
	return b
}

// encode makes the bytes as a producer would send them.
func (b batch) encode() []byte {
	var records []byte
	maxTimestamp := b.timestamp
	for i, r := range b.records {
		r.OffsetDelta = int32(i)
		maxTimestamp = max(maxTimestamp, b.timestamp+r.TimestampDelta64)
		records = append(records, encodeRecord(r)...)
	}
	attributes := b.attributes
	if b.codec != nil {
		var codec kgo.CompressionCodecType
		records, codec = compress(*b.codec, records)
		attributes |= int16(codec)
	}
	count := int32(len(b.records))
	rb := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1,
		Magic:                2,
		Attributes:           attributes,
		LastOffsetDelta:      count - 1,
		FirstTimestamp:       b.timestamp,
		MaxTimestamp:         maxTimestamp,
		ProducerID:           b.producer,
		ProducerEpoch:        b.epoch,
		FirstSequence:        b.seq,
		NumRecords:           count,
		Records:              records,
	}
	if b.count != 0 {
		rb.NumRecords = b.count
		rb.LastOffsetDelta = b.count - 1
	}
	if b.mangle != nil {
		b.mangle(&rb)
	}
	out := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	binary.BigEndian.PutUint32(out[batchCRCAt:], crc32.Checksum(out[batchAttributesAt:], castagnoli))
	return out
}

// compress uses franz-go's own compressor; none leaves the records as they are.
func compress(codec kgo.CompressionCodec, records []byte) ([]byte, kgo.CompressionCodecType) {
	c, err := kgo.DefaultCompressor(codec)
	if err != nil {
		panic("BUG: " + err.Error()) // the codecs are constants of kgo
	}
	if c == nil {
		return records, kgo.CodecNone
	}
	return c.Compress(new(bytes.Buffer), records)
}

// encodeRecord writes a record in front of its own length.
func encodeRecord(r kmsg.Record) []byte {
	r.Length = 0
	r.Length = int32(len(r.AppendTo(nil)) - 1) // a length of 0 took one byte
	return r.AppendTo(nil)
}

// baseOffset reads the first offset of a stored batch.
func baseOffset(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
