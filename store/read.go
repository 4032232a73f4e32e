package store

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/segment_read.sql
	segmentReadSQL string
	//go:embed query/mark_list.sql
	markListSQL string
	//go:embed query/segment_at_time.sql
	segmentAtTimeSQL string
	//go:embed query/segment_headers.sql
	segmentHeadersSQL string
	//go:embed query/epoch_end.sql
	epochEndSQL string
)

// SegmentRow is one stored segment.
type SegmentRow struct {
	Partition     int64
	Base, End     int64 // offsets, both included
	CreatedAt     time.Time
	MaxTimestamp  int64 // of all records of the partition up to End, ms
	Epoch         int32 // leader epoch
	Records, Size int
	Header, Data  []byte // owned by the caller, who may Recycle the Data
	// TotalSize is the size of all that was written to the partition up to this
	// segment, whatever became of it. Only ScanSegments tells it.
	TotalSize int64
}

// ReadSpan asks Read for a partition's segments from an offset on.
type ReadSpan struct {
	Partition, Offset int64
	MaxBytes          int
}

// SpanRead answers one ReadSpan.
type SpanRead struct {
	Found bool // the partition exists; else the rest is zero
	// Incarnation is the epoch of the connection that answered: the marks mean
	// nothing to another one.
	Incarnation int32
	LogStart    int64
	NextOffset  int64
	LastStable  int64 // equal to NextOffset while there are no transactions
	// Segments are those that end at or above the offset asked, in order. There
	// are none when the offset is below LogStart.
	Segments []SegmentRow
}

// Read returns marks and segments of all spans from one snapshot, so that a
// segment is never at or above the NextOffset it comes with. The bytes of each
// span are bounded by its MaxBytes, those of all together by bytesMax. Earlier spans
// come first, but where many have something, one may get less than it could. A span's
// first segment comes whole if it fits what bytesMax leaves, the very first one in
// any case.
func (db *DB) Read(ctx context.Context, spans []ReadSpan, bytesMax int) ([]SpanRead, error) {
	parts := make([]int64, len(spans))
	offsets := make([]int64, len(spans))
	sizes := make([]int64, len(spans))
	for i, s := range spans {
		parts[i], offsets[i], sizes[i] = s.Partition, s.Offset, int64(s.MaxBytes)
	}
	reads := make([]SpanRead, len(spans))
	// One connection is left to what is short, so that a topic is found, and a position,
	// while any number of clients catch up.
	select {
	case db.bulk <- struct{}{}:
		defer func() { <-db.bulk }()
	case <-ctx.Done():
		return nil, db.acquireError("read", context.Cause(ctx))
	}
	conn, err := db.read.Acquire(ctx)
	if err != nil {
		return nil, db.acquireError("read", err)
	}
	defer conn.Release()
	ctx, cancel := db.whileAnswered(ctx)
	defer cancel()
	rows, err := conn.Query(ctx, segmentReadSQL, parts, offsets, sizes, int64(bytesMax))
	if err == nil {
		err = collectSpans(rows, reads)
	}
	if err := db.readError("read", conn.Conn(), err); err != nil {
		return nil, err
	}
	epoch := incarnationOf(conn.Conn()).Epoch
	for i := range reads {
		reads[i].Incarnation = epoch
	}
	return reads, nil
}

// collectSpans sorts the rows of segment_read.sql into the answers.
func collectSpans(rows pgx.Rows, reads []SpanRead) error {
	var (
		i                             int
		part                          int64
		start, next, end, base, maxTS *int64
		created                       *time.Time
		epoch                         *int32
		records, size                 *int
		header                        []byte
		data                          rowBuffer
	)
	to := []any{&i, &start, &next, &part, &end, &base, &created, &maxTS, &epoch, &records, &size, &header, &data}
	_, err := pgx.ForEachRow(rows, to, func() error {
		r := &reads[i-1]
		if end == nil {
			r.Found, r.LogStart, r.NextOffset, r.LastStable = true, *start, *next, *next
			return nil
		}
		r.Segments = append(r.Segments, SegmentRow{
			Partition: part, Base: *base, End: *end, CreatedAt: *created, MaxTimestamp: *maxTS,
			Epoch: *epoch, Records: *records, Size: *size, Header: header, Data: data.b,
		})
		return nil
	})
	return err
}

// Mark is where a partition's log begins and ends.
type Mark struct {
	Found       bool  // the partition exists; else the rest is zero
	Incarnation int32 // the epoch of the connection that answered
	LogStart    int64
	NextOffset  int64
	Epoch       int32 // leader epoch of the newest segment, −1 for none
}

// Marks returns one Mark per partition, in order, from one snapshot.
func (db *DB) Marks(ctx context.Context, partitions []int64) ([]Mark, error) {
	type numbered struct {
		i int
		m Mark
	}
	scan := func(row pgx.CollectableRow) (n numbered, err error) {
		err = row.Scan(&n.i, &n.m.LogStart, &n.m.NextOffset, &n.m.Epoch)
		n.m.Found = true
		return n, err
	}
	rows, epoch, err := collect(ctx, db, db.read, "read marks", db.readError, scan, markListSQL, []any{partitions})
	if err != nil {
		return nil, err
	}
	marks := make([]Mark, len(partitions))
	for _, r := range rows {
		marks[r.i-1] = r.m
		marks[r.i-1].Incarnation = epoch
	}
	return marks, nil
}

// SegmentAtTime returns the first segment, at or above the log start, whose
// running maximum timestamp is at least ts (milliseconds), or ErrNotFound. It
// holds the first record of that time or later, except where that maximum
// stems from a record that is gone: then the caller looks on in the segments after it.
func (db *DB) SegmentAtTime(ctx context.Context, partition, ts int64) (SegmentRow, error) {
	return db.segmentAt(ctx, partition, &ts)
}

// MaxTimestampSegment returns the segment with which the running maximum
// timestamp reached its present value, or ErrNotFound in an empty log. The
// exception of SegmentAtTime holds here too.
func (db *DB) MaxTimestampSegment(ctx context.Context, partition int64) (SegmentRow, error) {
	return db.segmentAt(ctx, partition, nil)
}

// SegmentHeader is the header of a segment that ends at End.
type SegmentHeader struct {
	End    int64
	Header []byte
}

// SegmentHeaders returns the headers of a partition's segments from the one that ends at
// or above an offset on, until they have bytesMax bytes or are rowsMax in number; at
// least one, if there is any.
func (db *DB) SegmentHeaders(ctx context.Context, partition, from int64, bytesMax, rowsMax int) ([]SegmentHeader, error) {
	return readRows(ctx, db, db.read, "read headers of segments", func(row pgx.CollectableRow) (h SegmentHeader, err error) {
		err = row.Scan(&h.End, &h.Header)
		return h, err
	}, segmentHeadersSQL, partition, from, bytesMax, rowsMax)
}

func (db *DB) segmentAt(ctx context.Context, partition int64, ts *int64) (SegmentRow, error) {
	scan := func(row pgx.CollectableRow) (s SegmentRow, err error) {
		err = row.Scan(&s.Partition, &s.End, &s.Base, &s.CreatedAt, &s.MaxTimestamp, &s.Epoch,
			&s.Records, &s.Size, &s.Header, &s.Data)
		return s, err
	}
	return only(readRows(ctx, db, db.read, "find segment by time", scan, segmentAtTimeSQL, partition, ts))
}

// EpochEnd returns the largest leader epoch at or below the one asked for that
// wrote into the partition, or, where nothing of such is left, the one asked for, and
// where the next epoch began or will. ok is false where the partition has no segments.
func (db *DB) EpochEnd(ctx context.Context, partition int64, epoch int32) (found int32, end int64, ok bool, err error) {
	type epochEnd struct {
		epoch int32
		end   int64
	}
	scan := func(row pgx.CollectableRow) (e epochEnd, err error) {
		err = row.Scan(&e.epoch, &e.end)
		return e, err
	}
	e, err := only(readRows(ctx, db, db.read, "find epoch end", scan, epochEndSQL, partition, epoch))
	if errors.Is(err, ErrNotFound) {
		return -1, -1, false, nil
	}
	return e.epoch, e.end, err == nil, err
}
