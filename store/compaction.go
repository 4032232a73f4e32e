package store

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/compaction_due.sql
	compactionDueSQL string
	//go:embed query/segment_scan.sql
	segmentScanSQL string
	//go:embed query/segments_compact.sql
	segmentsCompactSQL string
	//go:embed query/compaction_done.sql
	compactionDoneSQL string
)

// CompactionRow is what there is to compact in a partition of a compacted queue
// that has any segment.
type CompactionRow struct {
	Queue     int64
	Number    int
	Partition int64
	Now       time.Time // the database's clock

	DirtyRatioMin        float64 // of dirty bytes to all, above which the log is to be compacted
	TombstoneRetentionMs int64

	LogStart int64
	CleanTo  int64 // below it no message is superseded by another below it
	Upto     int64 // nothing at or above it may be compacted yet
	// CleanBytes lie below CleanTo, DirtyBytes from there to Upto.
	CleanBytes, DirtyBytes int64
	CleanTotal             int64 // of all that was written below CleanTo, as SegmentRow.TotalSize
	Overdue                bool  // something has waited longer than the largest lag allowed
	Tombstones             bool  // a tombstone may go
}

// CompactionDue looks at up to max partitions of compacted queues, in the order of
// queues and numbers, after the given ones.
func (db *DB) CompactionDue(ctx context.Context, afterQueue int64, afterNumber, max int) ([]CompactionRow, error) {
	return readRows(ctx, db, db.admin, "find what to compact", func(row pgx.CollectableRow) (c CompactionRow, err error) {
		err = row.Scan(&c.Queue, &c.Number, &c.Partition, &c.Now, &c.DirtyRatioMin, &c.TombstoneRetentionMs,
			&c.LogStart, &c.CleanTo, &c.Upto, &c.CleanBytes, &c.CleanTotal, &c.DirtyBytes, &c.Overdue, &c.Tombstones)
		return c, err
	}, compactionDueSQL, afterQueue, afterNumber, max)
}

// ScanSegments returns a partition's segments from the one that ends at or above
// an offset on, until they have bytesMax bytes or are rowsMax in number; at least one, if there is any.
func (db *DB) ScanSegments(ctx context.Context, partition, from int64, bytesMax, rowsMax int) ([]SegmentRow, error) {
	return readRows(ctx, db, db.admin, "scan segments", func(row pgx.CollectableRow) (s SegmentRow, err error) {
		err = row.Scan(&s.Partition, &s.End, &s.Base, &s.CreatedAt, &s.MaxTimestamp, &s.Epoch,
			&s.Records, &s.Size, &s.Header, &s.Data, &s.TotalSize)
		return s, err
	}, segmentScanSQL, partition, from, bytesMax, rowsMax)
}

// CompactedSegment is a segment less some of its messages.
type CompactedSegment struct {
	End          int64  // of the segment it was made from
	Was          []byte // that one's header
	NewEnd       int64  // its own last offset: at most End
	Records      int    // 0: nothing is left, the row goes
	Size         int    // bytes as served
	Header, Data []byte
}

// ErrNotCompacted: the queue is gone, or its policy is another one now.
var ErrNotCompacted = errors.New("the queue is not compacted")

// CompactSegments puts segments in the place of those they were made from, in
// order, and returns how many. It stops at the first whose stored one is another by now, or is
// the partition's last and would be cut. Nothing else is changed, so a
// call whose outcome is unknown may be repeated or left. ErrNotCompacted where
// the queue is not to be compacted.
func (db *DB) CompactSegments(ctx context.Context, partition int64, segs []CompactedSegment) (done int, err error) {
	var (
		end     = make([]int64, len(segs))
		was     = make([][]byte, len(segs))
		newEnd  = make([]int64, len(segs))
		records = make([]int32, len(segs))
		size    = make([]int32, len(segs))
		header  = make([][]byte, len(segs))
		data    = make([][]byte, len(segs))
	)
	for i, s := range segs {
		end[i], was[i], newEnd[i], records[i], size[i], header[i], data[i] = s.End, s.Was, s.NewEnd, int32(s.Records), int32(s.Size), s.Header, s.Data
	}
	n, err := only(writeRows(ctx, db, db.admin, "compact segments", pgx.RowTo[*int], segmentsCompactSQL,
		partition, end, was, newEnd, records, size, header, data))
	switch {
	case err != nil:
		return 0, err
	case n == nil:
		return 0, ErrNotCompacted
	}
	return *n, nil
}

// Compacted is how far a partition is compacted.
type Compacted struct {
	CleanTo    int64
	CleanBytes int64 // what is left below CleanTo
	CleanTotal int64 // SegmentRow.TotalSize of the last segment there was below it
	// TombstonesDue is when the first tombstone below CleanTo may go; zero: there is none.
	TombstonesDue time.Time
}

// CompactionDone notes how far a partition is compacted.
func (db *DB) CompactionDone(ctx context.Context, partition int64, c Compacted) error {
	var due *time.Time
	if !c.TombstonesDue.IsZero() {
		due = &c.TombstonesDue
	}
	_, err := writeRows(ctx, db, db.admin, "note a compaction", noColumns,
		compactionDoneSQL, partition, c.CleanTo, c.CleanBytes, c.CleanTotal, due)
	return err
}
