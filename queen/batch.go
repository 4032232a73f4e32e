package queen

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// A record batch of magic 2, as Kafka clients send it and as it is stored:
//
//	 0 base offset i64        ┐ set by patchBatch: outside the CRC
//	 8 length i32             │ of what follows it
//	12 leader epoch i32       ┘
//	16 magic i8
//	17 CRC-32C u32             of attributes … end
//	21 attributes i16          bits 0–2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
//	23 last offset delta i32
//	27 base timestamp i64
//	35 max timestamp i64
//	43 producer id i64
//	51 producer epoch i16
//	53 base sequence i32
//	57 record count i32
//	61 records, together compressed by the codec
const (
	batchAtLength        = 8
	batchAtEpoch         = 12
	batchAtMagic         = 16
	batchAtCRC           = 17
	batchAtAttributes    = 21
	batchAtLastDelta     = 23
	batchAtBaseTimestamp = 27
	batchAtMaxTimestamp  = 35
	batchAtProducerID    = 43
	batchAtProducerEpoch = 51
	batchAtBaseSequence  = 53
	batchAtCount         = 57
	batchHeaderLen       = 61

	attrCodecMask     = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrUsedByClients = attrCodecMask | attrAppendTime | attrTransactional | attrControl

	batchMagic = 2

	noTimestamp = -1 // of a record without one
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchLimits bounds what checkBatch takes.
type batchLimits struct {
	BatchBytesMax        int // the batch as sent: more is ErrTooLarge
	DecompressedBytesMax int // its records after decompression: more is ErrTooLarge, found before it is allocated
}

// batchInfo is what a batch says about itself.
type batchInfo struct {
	Records       int
	Span          int32 // last offset delta + 1: the offsets it consumes
	BaseTimestamp int64
	MinTimestamp  int64 // from checkBatch: of the records with one, which −1 is not
	MaxTimestamp  int64 // from checkBatch: of the records, whatever the header claims
	ProducerID    int64 // −1: not idempotent
	ProducerEpoch int16
	BaseSequence  int32
	Codec         int8
	LogAppendTime bool
	Keyless       bool // from checkBatch: a record has no key
}

// checkBatch proves that b is exactly one batch a client may append: its
// length, CRC and counts agree, and every record was walked once (decompressed
// under a cap) with offset deltas 0, 1, 2, … and nothing left over. b is not
// kept. A bad CRC or length is ErrCorruptBatch, which clients repeat; whatever
// the CRC covers is as the client meant it, so a lie in there is
// ErrInvalidRecord, which they do not.
func checkBatch(b []byte, lim batchLimits) (batchInfo, error) {
	if len(b) > lim.BatchBytesMax {
		return batchInfo{}, fmt.Errorf("record batch of %d bytes, %d are allowed: %w", len(b), lim.BatchBytesMax, ErrTooLarge)
	}
	info, err := lookBatch(b)
	if err != nil {
		return batchInfo{}, err
	}
	if got, want := crc32.Checksum(b[batchAtAttributes:], castagnoli), binary.BigEndian.Uint32(b[batchAtCRC:]); got != want {
		return batchInfo{}, fmt.Errorf("record batch has CRC %08x and says %08x: %w", got, want, ErrCorruptBatch)
	}
	if err := checkPromises(b, info); err != nil {
		return batchInfo{}, err
	}
	it, err := iterate(b, info, lim.DecompressedBytesMax)
	if err != nil {
		return batchInfo{}, err
	}
	defer it.close()
	newest, oldest := int64(math.MinInt64), int64(math.MaxInt64)
	var r record
	for {
		// The deltas ascend and stay below Span, which is the count: so they are 0, 1, 2, …
		ok, err := it.next(&r)
		if err != nil {
			return batchInfo{}, err
		}
		if !ok {
			info.MaxTimestamp, info.MinTimestamp = newest, oldest
			return info, nil
		}
		newest = max(newest, r.Timestamp)
		info.Keyless = info.Keyless || r.Key == nil
		if r.Timestamp != noTimestamp {
			oldest = min(oldest, r.Timestamp)
		}
	}
}

// checkPromises refuses what the header of a well-formed batch may not say when a client sends it.
func checkPromises(b []byte, info batchInfo) error {
	attributes := binary.BigEndian.Uint16(b[batchAtAttributes:])
	switch {
	case attributes&attrControl != 0:
		return fmt.Errorf("control batch from a client: %w", ErrInvalidRecord)
	case attributes&attrTransactional != 0:
		return fmt.Errorf("transactional record batch: %w", ErrTransactional)
	case attributes&^uint16(attrUsedByClients) != 0:
		return fmt.Errorf("record batch with attributes %#04x, unknown bits are set: %w", attributes, ErrInvalidRecord)
	case info.LogAppendTime:
		return fmt.Errorf("record batch with timestamp type LogAppendTime, which only a broker sets: %w", ErrInvalidTimestamp)
	case int(info.Span) != info.Records:
		return fmt.Errorf("record batch of %d records with last offset delta %d: %w", info.Records, info.Span-1, ErrInvalidRecord)
	case info.ProducerID >= 0 && (info.BaseSequence < 0 || info.ProducerEpoch < 0):
		return fmt.Errorf("record batch of producer %d with epoch %d and base sequence %d: %w",
			info.ProducerID, info.ProducerEpoch, info.BaseSequence, ErrInvalidRecord)
	}
	return nil
}

// lookBatch reads the header of exactly one batch, without its CRC and its
// records. Of a stored batch that is enough: it was checked when it came.
func lookBatch(b []byte) (batchInfo, error) {
	if len(b) < batchHeaderLen {
		return batchInfo{}, fmt.Errorf("%d bytes are no record batch: %w", len(b), ErrInvalidRecord)
	}
	if magic := int8(b[batchAtMagic]); magic != batchMagic {
		return batchInfo{}, fmt.Errorf("record batch of magic %d, only 2 is served: %w", magic, ErrInvalidRecord)
	}
	length := int64(int32(binary.BigEndian.Uint32(b[batchAtLength:]))) + batchAtEpoch
	if length < batchHeaderLen || length > int64(len(b)) {
		return batchInfo{}, fmt.Errorf("record batch says %d bytes and has %d: %w", length, len(b), ErrCorruptBatch)
	}
	if length < int64(len(b)) {
		return batchInfo{}, fmt.Errorf("%d bytes after the record batch, exactly one is expected: %w", int64(len(b))-length, ErrInvalidRecord)
	}
	attributes := binary.BigEndian.Uint16(b[batchAtAttributes:])
	info := batchInfo{
		BaseTimestamp: int64(binary.BigEndian.Uint64(b[batchAtBaseTimestamp:])),
		MaxTimestamp:  int64(binary.BigEndian.Uint64(b[batchAtMaxTimestamp:])),
		ProducerID:    int64(binary.BigEndian.Uint64(b[batchAtProducerID:])),
		ProducerEpoch: int16(binary.BigEndian.Uint16(b[batchAtProducerEpoch:])),
		BaseSequence:  int32(binary.BigEndian.Uint32(b[batchAtBaseSequence:])),
		Codec:         int8(attributes & attrCodecMask),
		LogAppendTime: attributes&attrAppendTime != 0,
	}
	if info.ProducerID < 0 {
		info.ProducerID, info.ProducerEpoch, info.BaseSequence = -1, -1, -1
	}
	count := int32(binary.BigEndian.Uint32(b[batchAtCount:]))
	lastDelta := int32(binary.BigEndian.Uint32(b[batchAtLastDelta:]))
	if count <= 0 || lastDelta < count-1 || lastDelta == math.MaxInt32 {
		return batchInfo{}, fmt.Errorf("record batch of %d records with last offset delta %d: %w", count, lastDelta, ErrInvalidRecord)
	}
	info.Records, info.Span = int(count), lastDelta+1
	return info, nil
}

// eachRecord calls f for every record of a stored batch, in offset order, until
// f returns an error, which it returns. Deltas may have holes (a dropped
// duplicate leaves one). A record's slices are good only until f returns: clone
// what is kept. Nothing is allocated per record.
func eachRecord(b []byte, decompressedMax int, f func(r record) error) error {
	info, err := lookBatch(b)
	if err != nil {
		return err
	}
	it, err := iterate(b, info, decompressedMax)
	if err != nil {
		return err
	}
	defer it.close()
	var r record
	for {
		ok, err := it.next(&r)
		if err != nil || !ok {
			return err
		}
		if err := f(r); err != nil {
			return err
		}
	}
}

// findTimestamp is the first record, of those with a delta of from or more, whose
// timestamp is t or later.
func findTimestamp(b []byte, decompressedMax int, t, from int64) (delta int32, timestamp int64, found bool, err error) {
	info, err := lookBatch(b)
	if err != nil {
		return 0, 0, false, err
	}
	it, err := iterate(b, info, decompressedMax)
	if err != nil {
		return 0, 0, false, err
	}
	defer it.close()
	var r record
	for {
		ok, err := it.next(&r)
		if err != nil || !ok {
			return 0, 0, false, err
		}
		if r.Timestamp >= t && int64(r.OffsetDelta) >= from {
			return r.OffsetDelta, r.Timestamp, true, nil
		}
	}
}

// findMaxTimestamp is the first of the records with the highest timestamp.
func findMaxTimestamp(b []byte, decompressedMax int) (delta int32, timestamp int64, err error) {
	timestamp = math.MinInt64
	first := true
	err = eachRecord(b, decompressedMax, func(r record) error {
		if first || r.Timestamp > timestamp {
			delta, timestamp, first = r.OffsetDelta, r.Timestamp, false
		}
		return nil
	})
	return delta, timestamp, err
}

// patchBatch sets, in place, the two fields the log decides. They lie outside the CRC.
func patchBatch(b []byte, base int64, epoch int32) {
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[batchAtEpoch:], uint32(epoch))
}

// stampBatch gives a batch the log's time: all of its records then have it.
func stampBatch(b []byte, info *batchInfo, now time.Time) {
	info.LogAppendTime, info.MaxTimestamp = true, now.UnixMilli()
	attributes := binary.BigEndian.Uint16(b[batchAtAttributes:])
	binary.BigEndian.PutUint16(b[batchAtAttributes:], attributes|attrAppendTime)
	binary.BigEndian.PutUint64(b[batchAtMaxTimestamp:], uint64(info.MaxTimestamp))
	binary.BigEndian.PutUint32(b[batchAtCRC:], crc32.Checksum(b[batchAtAttributes:], castagnoli))
}

// recordIter walks the records of one batch. It allocates nothing where the
// batch is not compressed.
type recordIter struct {
	rest    []byte
	info    batchInfo
	read    int
	last    int32 // offset delta of the record before
	scratch *recordBuffer
}

// iterate starts a walk over b, whose header lookBatch has read. Records of a
// compressed batch lie in a pooled buffer until the caller closes the walk.
func iterate(b []byte, info batchInfo, decompressedMax int) (recordIter, error) {
	if info.Codec == codecNone {
		return iterateRecords(b[batchHeaderLen:], info)
	}
	scratch := recordBuffers.Get().(*recordBuffer)
	records, err := decompress(scratch.b, info.Codec, b[batchHeaderLen:], decompressedMax)
	if err != nil {
		scratch.release()
		return recordIter{}, err
	}
	scratch.b = records
	it, err := iterateRecords(records, info)
	if err != nil {
		scratch.release()
		return recordIter{}, err
	}
	it.scratch = scratch
	return it, nil
}

// iterateOwned is iterate for records that outlive the walk: they alias b, or
// memory of their own, and stay good. There is nothing to close.
func iterateOwned(b []byte, info batchInfo, decompressedMax int) (recordIter, error) {
	records := b[batchHeaderLen:]
	if info.Codec != codecNone {
		var err error
		if records, err = decompress(nil, info.Codec, records, decompressedMax); err != nil {
			return recordIter{}, err
		}
	}
	return iterateRecords(records, info)
}

func iterateRecords(records []byte, info batchInfo) (recordIter, error) {
	if info.Records > len(records)/recordBytesMin {
		return recordIter{}, fmt.Errorf("record batch of %d records in %d bytes: %w", info.Records, len(records), ErrInvalidRecord)
	}
	return recordIter{rest: records, info: info, last: -1}, nil
}

// next reads a record into r; false after the last one, when nothing may be left over.
func (it *recordIter) next(r *record) (bool, error) {
	if it.read == it.info.Records {
		if len(it.rest) != 0 {
			return false, fmt.Errorf("%d bytes after the last record of the batch: %w", len(it.rest), ErrInvalidRecord)
		}
		return false, nil
	}
	rest, err := readRecord(it.rest, r)
	if err != nil {
		return false, fmt.Errorf("record %d of the batch: %w: %w", it.read, err, ErrInvalidRecord)
	}
	if r.OffsetDelta <= it.last || r.OffsetDelta >= it.info.Span {
		return false, fmt.Errorf("record %d of the batch has offset delta %d after %d, below %d: %w",
			it.read, r.OffsetDelta, it.last, it.info.Span, ErrInvalidRecord)
	}
	if it.info.LogAppendTime {
		r.Timestamp = it.info.MaxTimestamp
	} else {
		r.Timestamp += it.info.BaseTimestamp
	}
	it.rest, it.last = rest, r.OffsetDelta
	it.read++
	return true, nil
}

// close gives the scratch buffer back; records read so far are invalid after it.
func (it *recordIter) close() {
	it.scratch.release()
	it.scratch, it.rest = nil, nil
}
