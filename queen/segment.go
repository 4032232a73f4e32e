package queen

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sort"
	"strconv"
	"time"
)

// A segment is one row: a header and the record batches it describes, one after
// the other. The header, big-endian:
//
//	u8 version = 1 | u8 runs | u16 length of id header name | name
//	runs × (u32 first relative offset | u64 id base hi | u64 id base lo)
//	batches × (u32 length | u32 gap | u32 span | u32 records | u8 origin | u8 ids | u16 flags |
//	           i64 max timestamp | u32 tombstones due)
//
// The entries come last and each stands for itself, so that SQL can leave a
// refused batch out by cutting 32 bytes from the header and length bytes from
// the data, without understanding either.
const (
	segmentVersion   = 1
	segmentPrefixLen = 4
	idRunLen         = 20
	batchMarkLen     = 32
	batchMarkAtFlags = 18
)

// batchOrigin says which door a batch came through.
type batchOrigin uint8

// The origins of a batch. Stored: never renumber.
const (
	originKafka  batchOrigin = 1
	originNative batchOrigin = 2
)

// idSource says where the ids of a batch's messages come from.
type idSource uint8

// The sources of ids. Stored: never renumber. A message for which its source
// has nothing has a minted id.
const (
	idsMinted       idSource = 1 // computed from the run, for every message
	idsNativeHeader idSource = 2 // the header queen-transaction-id, put there by appendNative
	idsRecordKey    idSource = 3 // the record's key
	idsNamedHeader  idSource = 4 // the record header named in the segment's header
)

// The flags of a batch.
const (
	flagControl       uint16 = 1
	flagTransactional uint16 = 2
	// flagPacked: the row has the batch packed (packing.go). Length is that of the
	// batch as served. Never set in a segment that was loaded.
	flagPacked uint16 = 4
)

// batchMark describes one batch of a segment; decoding goes by it, never by
// today's configuration.
type batchMark struct {
	Length       uint32 // bytes of the batch, as served
	Gap          uint32 // offsets skipped before it
	Span         uint32 // offsets it consumes
	Records      uint32 // records it holds; fewer than Span where duplicates were dropped
	Origin       batchOrigin
	IDs          idSource
	Flags        uint16
	MaxTimestamp int64
	// TombstonesDue is when compaction may take the batch's tombstones out, in
	// seconds since 1970; 0: it has none, or what they delete may still be there.
	TombstonesDue uint32
}

// kafkaMark is the mark of a batch that checkBatch has passed.
func kafkaMark(info batchInfo, length int, ids idSource) batchMark {
	return batchMark{
		Length: uint32(length), Span: uint32(info.Span), Records: uint32(info.Records),
		Origin: originKafka, IDs: ids, MaxTimestamp: info.MaxTimestamp,
	}
}

// AppendTo appends the mark as it is stored.
func (m batchMark) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, m.Length)
	dst = binary.BigEndian.AppendUint32(dst, m.Gap)
	dst = binary.BigEndian.AppendUint32(dst, m.Span)
	dst = binary.BigEndian.AppendUint32(dst, m.Records)
	dst = append(dst, byte(m.Origin), byte(m.IDs))
	dst = binary.BigEndian.AppendUint16(dst, m.Flags)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.MaxTimestamp))
	return binary.BigEndian.AppendUint32(dst, m.TombstonesDue)
}

// decodeBatchMark reads the first mark of src.
func decodeBatchMark(src []byte) (m batchMark, rest []byte, err error) {
	if len(src) < batchMarkLen {
		return m, nil, fmt.Errorf("batch entry of %d bytes", len(src))
	}
	m = batchMark{
		Length:       binary.BigEndian.Uint32(src),
		Gap:          binary.BigEndian.Uint32(src[4:]),
		Span:         binary.BigEndian.Uint32(src[8:]),
		Records:      binary.BigEndian.Uint32(src[12:]),
		Origin:       batchOrigin(src[16]),
		IDs:          idSource(src[17]),
		Flags:        binary.BigEndian.Uint16(src[batchMarkAtFlags:]),
		MaxTimestamp: int64(binary.BigEndian.Uint64(src[20:])),

		TombstonesDue: binary.BigEndian.Uint32(src[28:]),
	}
	switch {
	case m.Origin != originKafka && m.Origin != originNative:
		return m, nil, fmt.Errorf("batch of unknown origin %d", m.Origin)
	case m.IDs < idsMinted || m.IDs > idsNamedHeader:
		return m, nil, fmt.Errorf("batch with unknown id source %d", m.IDs)
	}
	return m, src[batchMarkLen:], nil
}

// idRun gives the messages from a relative offset on, up to the next run, their ids.
type idRun struct {
	First uint32 // relative to the segment's base
	Base  IDBase
}

// segmentHeader is the decoded header of a segment.
type segmentHeader struct {
	IDHeader string // for idsNamedHeader
	Runs     []idRun
	Marks    []batchMark
}

// AppendTo appends the header as it is stored.
func (h segmentHeader) AppendTo(dst []byte) []byte {
	if len(h.Runs) == 0 || len(h.Runs) > 255 || len(h.IDHeader) > 1<<16-1 {
		panic("BUG: segment header with " + strconv.Itoa(len(h.Runs)) + " runs and a name of " + strconv.Itoa(len(h.IDHeader)) + " bytes")
	}
	dst = append(dst, segmentVersion, byte(len(h.Runs)))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(h.IDHeader)))
	dst = append(dst, h.IDHeader...)
	for _, r := range h.Runs {
		dst = binary.BigEndian.AppendUint32(dst, r.First)
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Base.Hi))
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Base.Lo))
	}
	for _, m := range h.Marks {
		dst = m.AppendTo(dst)
	}
	return dst
}

// decodeSegmentHeader reads a whole header.
func decodeSegmentHeader(src []byte) (h segmentHeader, err error) {
	if len(src) < segmentPrefixLen {
		return h, fmt.Errorf("header of %d bytes", len(src))
	}
	if src[0] != segmentVersion {
		return h, fmt.Errorf("header of version %d, this broker reads %d", src[0], segmentVersion)
	}
	runs, name := int(src[1]), int(binary.BigEndian.Uint16(src[2:]))
	src = src[segmentPrefixLen:]
	entries := len(src) - name - runs*idRunLen
	if runs == 0 || entries <= 0 || entries%batchMarkLen != 0 {
		return h, fmt.Errorf("header with %d runs, a name of %d bytes and %d bytes of entries", runs, name, entries)
	}
	h.IDHeader, src = string(src[:name]), src[name:]
	h.Runs = make([]idRun, runs)
	for i := range h.Runs {
		r := idRun{First: binary.BigEndian.Uint32(src), Base: IDBase{
			Hi: int64(binary.BigEndian.Uint64(src[4:])),
			Lo: int64(binary.BigEndian.Uint64(src[12:])),
		}}
		if i == 0 && r.First != 0 || i > 0 && r.First <= h.Runs[i-1].First || !r.Base.valid() {
			return h, fmt.Errorf("run %d starts at %d with id base %016x %016x", i, r.First, uint64(r.Base.Hi), uint64(r.Base.Lo))
		}
		h.Runs[i], src = r, src[idRunLen:]
	}
	h.Marks = make([]batchMark, entries/batchMarkLen)
	for i := range h.Marks {
		if h.Marks[i], src, err = decodeBatchMark(src); err != nil {
			return h, fmt.Errorf("batch %d: %w", i, err)
		}
	}
	return h, nil
}

// segment is a committed segment, ready to be served. It is immutable, and so
// is every slice it hands out.
type segment struct {
	base, end int64 // the first and the last offset it consumes
	epoch     int32
	createdAt time.Time
	idHeader  string
	runs      []idRun
	batches   []segmentBatch
	data      []byte // of all batches, one after another
}

// segmentBatch is one batch with its offsets patched in.
type segmentBatch struct {
	base int64
	data []byte
	mark batchMark
}

func (b *segmentBatch) last() int64 { return b.base + int64(b.mark.Span) - 1 }

// loadSegment takes a row, base and end being its first and last offset, unpacks
// its batches and patches base offset and epoch into them. It owns data from here on.
// A row whose parts do not fit together is ErrCorruptBatch.
func loadSegment(base, end int64, epoch int32, createdAt time.Time, header, data []byte) (*segment, error) {
	h, err := decodeSegmentHeader(header)
	if err == nil {
		data, err = h.unpack(data)
	}
	if err != nil {
		return nil, fmt.Errorf("segment %d–%d: %w: %w", base, end, err, ErrCorruptBatch)
	}
	return newSegment(base, end, epoch, createdAt, h, data)
}

// newSegment is loadSegment of a header that was decoded and data as served.
func newSegment(base, end int64, epoch int32, createdAt time.Time, h segmentHeader, data []byte) (*segment, error) {
	s := &segment{
		base: base, end: end, epoch: epoch, createdAt: createdAt,
		idHeader: h.IDHeader, runs: h.Runs, data: data,
		batches: make([]segmentBatch, len(h.Marks)),
	}
	next := base
	for i, m := range h.Marks {
		if int64(m.Length) > int64(len(data)) {
			return nil, fmt.Errorf("segment %d–%d: batch %d of %d bytes, %d are left: %w", base, end, i, m.Length, len(data), ErrCorruptBatch)
		}
		b := segmentBatch{base: next + int64(m.Gap), data: data[:m.Length:m.Length], mark: m}
		data = data[m.Length:]
		info, err := lookBatch(b.data)
		if err != nil {
			return nil, fmt.Errorf("segment %d–%d: batch %d: %w: %w", base, end, i, err, ErrCorruptBatch)
		}
		if int64(info.Span) != int64(m.Span) || int64(info.Records) != int64(m.Records) {
			return nil, fmt.Errorf("segment %d–%d: batch %d has %d records over %d offsets, its entry says %d over %d: %w",
				base, end, i, info.Records, info.Span, m.Records, m.Span, ErrCorruptBatch)
		}
		patchBatch(b.data, b.base, epoch)
		next = b.last() + 1
		s.batches[i] = b
	}
	if len(data) != 0 || next != end+1 {
		return nil, fmt.Errorf("segment %d–%d: %d bytes are left and its batches end at %d: %w", base, end, len(data), next-1, ErrCorruptBatch)
	}
	return s, nil
}

// header is the header the segment was loaded with.
func (s *segment) header() segmentHeader {
	h := segmentHeader{IDHeader: s.idHeader, Runs: s.runs, Marks: make([]batchMark, len(s.batches))}
	for i := range s.batches {
		h.Marks[i] = s.batches[i].mark
	}
	return h
}

// What a segment costs in memory beside its data; a test compares with unsafe.Sizeof.
const (
	segmentOverhead      = 136
	segmentBatchOverhead = 72
)

// size is the memory the segment holds.
func (s *segment) size() int {
	return segmentOverhead + len(s.data) + len(s.batches)*segmentBatchOverhead + len(s.runs)*24
}

// find is the index of the first batch holding offset or following it.
func (s *segment) find(offset int64) int {
	return sort.Search(len(s.batches), func(i int) bool { return s.batches[i].last() >= offset })
}

// appendFrom appends the whole batches that hold or follow offset to dst, n bytes in all, up
// to maxBytes; with first the first one even if it is larger. all says that no batch was
// left out for its size.
func (s *segment) appendFrom(dst [][]byte, offset int64, maxBytes int, first bool) (batches [][]byte, n int, all bool) {
	rest := s.batches[s.find(offset):]
	for i := range rest {
		b := rest[i].data
		if n+len(b) > maxBytes && (!first || i > 0) {
			return dst, n, false
		}
		dst = append(dst, b)
		n += len(b)
	}
	return dst, n, true
}

// storedRecordsMax guards the reading of what was checked when it was written,
// under the cap of its day: damage must not take all memory.
const storedRecordsMax = 1 << 30

// messages decodes the messages at from and above, at most max of them, until
// yield returns false. Partition and PartitionID are the caller's to fill in.
// The slices of a message stay good.
func (s *segment) messages(from int64, max int, yield func(StoredMessage) bool) error {
	for i := s.find(from); i < len(s.batches) && max > 0; i++ {
		b := &s.batches[i]
		if b.mark.Flags&flagControl != 0 {
			continue
		}
		info, err := lookBatch(b.data)
		if err != nil {
			return fmt.Errorf("batch at offset %d: %w", b.base, err)
		}
		// Clients of Kafka look for themselves; who gets messages has nothing to look at.
		if crc32.Checksum(b.data[batchAtAttributes:], castagnoli) != binary.BigEndian.Uint32(b.data[batchAtCRC:]) {
			return fmt.Errorf("batch at offset %d does not match its CRC: %w", b.base, ErrCorruptBatch)
		}
		it, err := iterateOwned(b.data, info, storedRecordsMax)
		if err != nil {
			return fmt.Errorf("batch at offset %d: %w", b.base, err)
		}
		var r record
		for max > 0 {
			ok, err := it.next(&r)
			if err != nil {
				return fmt.Errorf("batch at offset %d: %w", b.base, err)
			}
			if !ok {
				break
			}
			offset := b.base + int64(r.OffsetDelta)
			if offset < from {
				continue
			}
			max--
			if !yield(s.message(offset, b.mark, &r)) {
				return nil
			}
		}
	}
	return nil
}

// message decodes one record by its batch's mark.
func (s *segment) message(offset int64, mark batchMark, r *record) StoredMessage {
	id, trace, own := recordID(mark, s.idHeader, r)
	m := StoredMessage{
		ID: s.id(offset), TransactionID: id, Offset: offset,
		Key: own.Key, Value: own.Value, Headers: own.Headers(), TraceID: trace,
		Timestamp: time.UnixMilli(own.Timestamp), CreatedAt: s.createdAt,
	}
	if id == nil {
		m.TransactionID = []byte(m.ID.String())
	}
	return m
}

// recordID is the explicit id of a record, nil where it is minted, its trace
// id, and the record as its sender gave it.
func recordID(mark batchMark, idHeader string, r *record) (id []byte, trace string, own record) {
	if mark.Origin == originNative {
		return stripNative(r)
	}
	switch mark.IDs {
	case idsRecordKey:
		id = r.Key
	case idsNamedHeader:
		id, _ = r.header(idHeader)
	}
	if len(id) == 0 { // an id has at least one byte
		id = nil
	}
	return id, "", *r
}

// id is the message id of an offset the segment holds.
func (s *segment) id(offset int64) [16]byte {
	at := uint32(offset - s.base)
	i := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].First > at }) - 1
	return s.runs[i].Base.ID(int64(at - s.runs[i].First))
}

// findTimestamp is the first message, at offset from or above, whose timestamp is t
// (milliseconds) or later.
func (s *segment) findTimestamp(t, from int64) (offset, timestamp int64, found bool, err error) {
	for i := range s.batches {
		b := &s.batches[i]
		if b.mark.MaxTimestamp < t || b.last() < from {
			continue
		}
		delta, timestamp, found, err := findTimestamp(b.data, storedRecordsMax, t, from-b.base)
		if err != nil {
			return 0, 0, false, fmt.Errorf("batch at offset %d: %w", b.base, err)
		}
		if found {
			return b.base + int64(delta), timestamp, true, nil
		}
	}
	return 0, 0, false, nil
}

// newest is the segment's highest timestamp.
func (s *segment) newest() int64 { return s.newestBatch().mark.MaxTimestamp }

func (s *segment) newestBatch() *segmentBatch {
	newest := &s.batches[0]
	for i := range s.batches {
		if s.batches[i].mark.MaxTimestamp > newest.mark.MaxTimestamp {
			newest = &s.batches[i]
		}
	}
	return newest
}

// maxTimestamp is the first of the messages with the segment's highest timestamp.
func (s *segment) maxTimestamp() (offset, timestamp int64, err error) {
	newest := s.newestBatch()
	delta, timestamp, err := findMaxTimestamp(newest.data, storedRecordsMax)
	if err != nil {
		return 0, 0, fmt.Errorf("batch at offset %d: %w", newest.base, err)
	}
	return newest.base + int64(delta), timestamp, nil
}
