package queen

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"queenmq/dedup"
)

// Where the id of a Kafka record comes from, as QueueOptions.DedupSource says it.
const (
	DedupSourceNone   = "none"
	DedupSourceKey    = "key"
	DedupSourceHeader = "header:" // followed by the header's name
)

// headerTTL shortens how long a record's id is known: milliseconds, ASCII decimal.
const headerTTL = "queen-dedup-ttl-ms"

// ValidateDedupSource checks a source of record ids.
func ValidateDedupSource(s string) error {
	name, isHeader := strings.CutPrefix(s, DedupSourceHeader)
	switch {
	case s == DedupSourceNone, s == DedupSourceKey:
		return nil
	case isHeader && ValidateName("header", name) == nil:
		return nil
	}
	return fmt.Errorf("%w: the source of record ids is %q, must be %s, %s or %sNAME with a name of 1 to %d bytes of UTF-8 without control characters",
		ErrInvalidConfig, s, DedupSourceNone, DedupSourceKey, DedupSourceHeader, NameBytesMax)
}

// recordIDs are the ids that the records of one Kafka batch carry, by offset delta.
type recordIDs struct {
	source idSource
	header string       // of idsNamedHeader
	hashes []dedup.Hash // the zero hash: this record's id is minted
	uids   []recordUID
	ttls   []int64 // nil, or milliseconds, 0 for the queue's window
}

// recordUID is an id that looks like a minted one.
type recordUID struct {
	delta  int
	hi, lo int64
}

// readRecordIDs reads the ids of a checked batch. A record without key or
// header keeps its minted id; of a repeated header the first counts. An id
// that is too long, or a bad time to live, is ErrInvalidRecord.
func readRecordIDs(b []byte, info batchInfo, source string, decompressedMax int) (*recordIDs, error) {
	ids := &recordIDs{source: idsRecordKey, hashes: make([]dedup.Hash, info.Span)}
	if name, ok := strings.CutPrefix(source, DedupSourceHeader); ok {
		ids.source, ids.header = idsNamedHeader, name
	}
	mark := batchMark{Origin: originKafka, IDs: ids.source}
	err := eachRecord(b, decompressedMax, func(r record) error {
		id, _, _ := recordID(mark, ids.header, &r)
		if len(id) > IDBytesMax {
			return fmt.Errorf("record %d has an id of %d bytes, at most %d are allowed: %w", r.OffsetDelta, len(id), IDBytesMax, ErrInvalidRecord)
		}
		ttl, ok := r.header(headerTTL)
		if ok {
			ms, err := strconv.ParseUint(string(ttl), 10, 63)
			if err != nil || ms < 1 {
				return fmt.Errorf("record %d: header %s is %q, must be milliseconds as a decimal number above 0: %w",
					r.OffsetDelta, headerTTL, ttl, ErrInvalidRecord)
			}
			if ids.ttls == nil {
				ids.ttls = make([]int64, info.Span)
			}
			// No window is longer, and SQL reckons with intervals, which end somewhere.
			ids.ttls[r.OffsetDelta] = int64(min(ms, 1000*dedupWindowSecondsMax))
		}
		if id == nil {
			return nil
		}
		ids.hashes[r.OffsetDelta] = dedup.Of(id)
		if hi, lo, ok := ParseID(id); ok {
			ids.uids = append(ids.uids, recordUID{delta: int(r.OffsetDelta), hi: hi, lo: lo})
		}
		return nil
	})
	return ids, err
}

// dropRecords returns the batch without the records whose deltas are out; at
// least one must be left. Offset deltas, sequence and last offset delta stay,
// so the places of what was dropped are holes, as after compaction. So does the codec.
func dropRecords(b []byte, out func(delta int) bool, decompressedMax int) ([]byte, batchInfo, error) {
	info, err := lookBatch(b)
	if err != nil {
		return nil, info, err
	}
	records := b[batchHeaderLen:]
	if info.Codec != codecNone {
		if records, err = decompress(nil, info.Codec, records, decompressedMax); err != nil {
			return nil, info, err
		}
	}
	kept := make([]byte, 0, len(records))
	n := 0
	newest := int64(0)
	for first := true; len(records) > 0; {
		var r record
		rest, err := readRecord(records, &r)
		if err != nil {
			return nil, info, fmt.Errorf("drop records: %w: %w", err, ErrInvalidRecord)
		}
		if !out(int(r.OffsetDelta)) {
			kept = append(kept, records[:len(records)-len(rest)]...)
			n++
			if ts := info.BaseTimestamp + r.Timestamp; first || ts > newest {
				newest, first = ts, false
			}
		}
		records = rest
	}
	if n == 0 {
		panic("BUG: every record of a batch was dropped")
	}
	d, err := packBatch(b[:batchHeaderLen], info.Codec, levelDefault, kept)
	if err != nil {
		return nil, info, fmt.Errorf("drop records: %w", err)
	}
	binary.BigEndian.PutUint32(d[batchAtCount:], uint32(n))
	if !info.LogAppendTime {
		binary.BigEndian.PutUint64(d[batchAtMaxTimestamp:], uint64(newest))
	}
	binary.BigEndian.PutUint32(d[batchAtCRC:], crc32.Checksum(d[batchAtAttributes:], castagnoli))
	info, err = lookBatch(d)
	return d, info, err
}
