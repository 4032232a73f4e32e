package queen

import (
	"context"
	"errors"
	"fmt"
	"math"

	"queenmq/store"
)

// The bounds of one look at the headers of segments.
const (
	headersBytesMax = 256 << 10
	headersRowsMax  = 2000
)

// noOffset: there is no such record.
var noOffset = OffsetAnswer{Offset: -1, Timestamp: -1, Epoch: -1}

// atTime is the first message, at the log start or above, of a time (milliseconds) or later.
//
// The running maximum is monotone, so the first segment whose maximum reaches the
// time holds the first record that does, unless the maximum stems from a record that
// is gone. Then what the segments behind say of themselves decides: their headers
// are looked through, and no data but that of the one found.
func (e *Engine) atTime(ctx context.Context, p *partition, at int64, m store.Mark) (OffsetAnswer, error) {
	a := noOffset
	row, err := e.db.SegmentAtTime(ctx, p.id, at)
	for err == nil {
		var seg *segment
		if seg, err = loadRow(row); err != nil {
			break
		}
		var found bool
		if a.Offset, a.Timestamp, found, err = seg.findTimestamp(at, m.LogStart); found || err != nil {
			a.Epoch = seg.epoch
			break
		}
		row, err = e.segmentWhose(ctx, p.id, seg.end+1, func(newest int64) (good, last bool) { return newest >= at, newest >= at })
	}
	return lookedUp(a, err, "find a timestamp")
}

// atNewest is the first of the messages with the highest timestamp.
func (e *Engine) atNewest(ctx context.Context, p *partition, m store.Mark) (OffsetAnswer, error) {
	row, err := e.db.MaxTimestampSegment(ctx, p.id)
	var seg *segment
	if err == nil {
		seg, err = loadRow(row)
	}
	if err == nil && seg.newest() < row.MaxTimestamp {
		// The record that had it is gone.
		best := int64(math.MinInt64)
		row, err = e.segmentWhose(ctx, p.id, m.LogStart, func(newest int64) (good, last bool) {
			good, best = newest > best, max(best, newest)
			return good, false
		})
		if err == nil {
			seg, err = loadRow(row)
		}
	}
	a := noOffset
	if err == nil {
		a.Epoch = seg.epoch
		a.Offset, a.Timestamp, err = seg.maxTimestamp()
	}
	return lookedUp(a, err, "find the newest timestamp")
}

// lookedUp is the answer of a look-up: that nothing was found is one too.
func lookedUp(a OffsetAnswer, err error, what string) (OffsetAnswer, error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return noOffset, nil
	case errors.Is(err, ErrCorruptBatch):
		return noOffset, err
	case err != nil:
		return noOffset, storeError(what, err)
	}
	return a, nil
}

// segmentWhose shows f the highest timestamp of each segment from an offset on, as
// headers say it, until f says that it was the last one to see. It returns the last
// one that f found good, or ErrNotFound.
func (e *Engine) segmentWhose(ctx context.Context, partition, from int64, f func(newest int64) (good, last bool)) (store.SegmentRow, error) {
	found := int64(-1)
	for last := false; !last; {
		rows, err := e.db.SegmentHeaders(ctx, partition, from, headersBytesMax, headersRowsMax)
		if err != nil {
			return store.SegmentRow{}, err
		}
		last = len(rows) == 0
		for i := 0; i < len(rows) && !last; i++ {
			h, err := decodeSegmentHeader(rows[i].Header)
			if err != nil {
				return store.SegmentRow{}, fmt.Errorf("segment that ends at %d: %w: %w", rows[i].End, err, ErrCorruptBatch)
			}
			newest := h.Marks[0].MaxTimestamp
			for _, m := range h.Marks[1:] {
				newest = max(newest, m.MaxTimestamp)
			}
			var good bool
			if good, last = f(newest); good {
				found = rows[i].End
			}
			from = rows[i].End + 1
		}
	}
	if found < 0 {
		return store.SegmentRow{}, store.ErrNotFound
	}
	reads, err := e.db.Read(ctx, []store.ReadSpan{{Partition: partition, Offset: found, MaxBytes: 1}}, 1)
	if err != nil {
		return store.SegmentRow{}, err
	}
	if len(reads[0].Segments) == 0 {
		return store.SegmentRow{}, store.ErrNotFound // gone since
	}
	return reads[0].Segments[0], nil
}
