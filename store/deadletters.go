package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/dead_letter_list.sql
	deadLetterListSQL string
	//go:embed query/dead_segment_find.sql
	deadSegmentFindSQL string
	//go:embed query/dead_letters_delete.sql
	deadLettersDeleteSQL string
	//go:embed query/partition_place.sql
	partitionPlaceSQL string
)

// DeadFilter chooses dead letters of a queue; what is nil or zero is any.
type DeadFilter struct {
	Queue     int64
	Group     *string
	Partition int64
	IDs       []int64
	Offset    *int64
	From, To  time.Time // To is not included
}

// DeadLetter is a message a group gave up on.
type DeadLetter struct {
	ID            int64 // never reused
	Partition     int64
	PartitionName string
	Group         string
	Offset        int64
	SegmentEnd    int64 // in the segments kept beside; −1: its bytes were gone already
	Failures      int   // that were counted
	Reason        string
	DiedAt        time.Time
}

// DeadLetters lists dead letters, oldest first, and says how many there are.
func (db *DB) DeadLetters(ctx context.Context, f DeadFilter, limit, skip int) (letters []DeadLetter, total int, err error) {
	scan := func(row pgx.CollectableRow) (l DeadLetter, err error) {
		err = row.Scan(&l.ID, &l.Partition, &l.PartitionName, &l.Group, &l.Offset, &l.SegmentEnd, &l.Failures, &l.Reason, &l.DiedAt, &total)
		return l, err
	}
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	letters, err = readRows(ctx, db, db.read, "list dead letters", scan, deadLetterListSQL,
		f.Queue, f.Group, orNull(f.Partition), f.IDs, f.Offset, at(f.From), at(f.To), limit, skip)
	if err == nil && len(letters) == 0 && skip > 0 {
		_, total, err = db.DeadLetters(ctx, f, 1, 0)
	}
	return letters, total, err
}

// DeadSegment returns the segment that was kept for dead letters; ErrNotFound
// where they are gone.
func (db *DB) DeadSegment(ctx context.Context, partition, end int64) (SegmentRow, error) {
	scan := func(row pgx.CollectableRow) (s SegmentRow, err error) {
		s.Partition = partition
		err = row.Scan(&s.End, &s.Base, &s.CreatedAt, &s.MaxTimestamp, &s.Epoch, &s.Records, &s.Size, &s.Header, &s.Data)
		return s, err
	}
	return only(readRows(ctx, db, db.read, "read a dead letter", scan, deadSegmentFindSQL, partition, end))
}

// DeleteDeadLetters forgets dead letters and says how many there were. A repeat of a
// call, under the same id, is told what its first attempt did.
func (db *DB) DeleteDeadLetters(ctx context.Context, call uuid.UUID, ids []int64) (int, error) {
	return only(writeRows(ctx, db, db.write, "delete dead letters", pgx.RowTo[int], deadLettersDeleteSQL, call, ids))
}

// PartitionPlace returns the names of a partition's queue and of itself, and its
// log start; ErrNotFound where it is gone.
func (db *DB) PartitionPlace(ctx context.Context, partition int64) (queue, name string, logStart int64, err error) {
	_, err = only(readRows(ctx, db, db.read, "find partition", func(row pgx.CollectableRow) (_ struct{}, err error) {
		err = row.Scan(&queue, &name, &logStart)
		return struct{}{}, err
	}, partitionPlaceSQL, partition))
	return queue, name, logStart, err
}
