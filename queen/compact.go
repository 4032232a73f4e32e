package queen

import (
	"fmt"
	"math"
	"time"

	"queenmq/store"
)

// compaction is what one pass goes by. A record goes when its key occurs again
// below the pass's end, or when it is a tombstone that was one for long enough.
// A record without a key (older than the policy: new ones are refused) stays.
//
// A tombstone's time begins with the first pass that meets it as the newest
// record of its key: passes go upwards, so by then nothing below it has that
// key any more, and taking it out later brings nothing back.
type compaction struct {
	latest        *latestKeys
	now           time.Time // of the database
	tombstonesDue uint32    // what tombstones met for the first time get, in seconds since 1970
}

func newCompaction(latest *latestKeys, now time.Time, tombstoneRetentionMs int64) *compaction {
	c := &compaction{latest: latest, now: now, tombstonesDue: math.MaxUint32} // in 2106
	if tombstoneRetentionMs < math.MaxUint32*1000 {
		// Rounded up, a moment early would be too early; and always later than now.
		c.tombstonesDue = uint32(min(max((now.UnixMilli()+tombstoneRetentionMs+999)/1000, now.Unix()+1), math.MaxUint32))
	}
	return c
}

// compacted is what became of a segment.
type compacted struct {
	store.CompactedSegment
	changed       bool
	removed       int    // records
	tombstonesDue uint32 // the soonest of its batches; 0: no tombstone is left
}

// segment compacts one segment. last says that nothing is stored behind it: then
// its last record stays, whatever it is, so that the log's end keeps its row.
func (c *compaction) segment(row store.SegmentRow, last bool) (out compacted, err error) {
	h, err := decodeSegmentHeader(row.Header)
	if err != nil {
		return out, fmt.Errorf("segment %d–%d: %w: %w", row.Base, row.End, err, ErrCorruptBatch)
	}
	s, err := loadRow(row)
	if err != nil {
		return out, err
	}
	out.CompactedSegment = store.CompactedSegment{End: row.End, Was: row.Header, NewEnd: row.End}
	marks := h.Marks[:0:0]
	data := make([]byte, 0, len(s.data))
	next := s.base
	for i := range s.batches {
		b := &s.batches[i]
		kept, mark, err := c.batch(b, last && i == len(s.batches)-1)
		if err != nil {
			return out, fmt.Errorf("batch at offset %d: %w", b.base, err)
		}
		out.removed += int(b.mark.Records - mark.Records)
		out.changed = out.changed || mark != b.mark
		if mark.Records == 0 {
			continue
		}
		mark.Gap = uint32(b.base - next)
		marks = append(marks, mark)
		data = append(data, kept...)
		next = b.last() + 1
		out.Records += int(mark.Records)
		if due := mark.TombstonesDue; due != 0 && (out.tombstonesDue == 0 || due < out.tombstonesDue) {
			out.tombstonesDue = due
		}
	}
	out.Size = len(data)
	if !out.changed || out.Records == 0 {
		return out, nil
	}
	h.Marks = marks
	out.NewEnd = next - 1
	out.Header, out.Data = pack(h, data)
	return out, nil
}

// batch compacts one batch; its mark says what is left.
func (c *compaction) batch(b *segmentBatch, last bool) ([]byte, batchMark, error) {
	mark := b.mark
	if mark.Flags&(flagControl|flagTransactional) != 0 {
		panic("BUG: compaction met a batch of a transaction")
	}
	mature := mark.TombstonesDue != 0 && c.now.Unix() >= int64(mark.TombstonesDue)
	out := make([]bool, mark.Span)
	removed, tombstones := 0, 0
	newest, newestOut := int32(0), false
	err := eachRecord(b.data, storedRecordsMax, func(r record) error {
		newest, newestOut = r.OffsetDelta, false
		if r.Key == nil {
			return nil
		}
		switch {
		case c.latest.superseded(r.Key, b.base+int64(r.OffsetDelta)):
			out[r.OffsetDelta] = true
			removed++
		case r.Value == nil && mature:
			out[r.OffsetDelta], newestOut = true, true
			removed++
		case r.Value == nil:
			tombstones++
		}
		return nil
	})
	if err != nil {
		return nil, mark, err
	}
	if last && newestOut {
		out[newest] = false
		removed--
		tombstones++
	}
	switch {
	case tombstones == 0:
		mark.TombstonesDue = 0
	case mark.TombstonesDue == 0:
		mark.TombstonesDue = c.tombstonesDue
	}
	switch removed {
	case 0:
		return b.data, mark, nil
	case int(mark.Records):
		mark.Records = 0
		return nil, mark, nil
	}
	data, info, err := dropRecords(b.data, func(delta int) bool { return out[delta] }, storedRecordsMax)
	if err != nil {
		return nil, mark, err
	}
	mark.Length, mark.Records, mark.MaxTimestamp = uint32(len(data)), uint32(info.Records), info.MaxTimestamp
	return data, mark, nil
}
