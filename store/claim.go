package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed query/claim.sql
var claimSQL string

// ClaimRequest asks for the next messages of a group.
type ClaimRequest struct {
	Group      string
	Partitions []int64       // candidates, in order of preference
	Batch      int           // offsets at most; at least 1
	MaxBytes   int           // of segments; the first comes in any case
	Lease      uuid.UUID     // the id of the lease to give, minted by the caller
	LeaseFor   time.Duration // from now by the database's clock
	AutoAck    bool          // completed on delivery; no lease
	// FromEnd: where the group has no position yet it starts with what is stored
	// after its first request of this kind.
	FromEnd bool
}

// Claim is a leased range of offsets and the segments that cover it.
type Claim struct {
	Partition int64
	// Next … End are the offsets given. Those in Acked were completed before,
	// and some may hold no record.
	Next, End  int64
	LeaseUntil time.Time // zero with AutoAck
	Acked      []int64   // ascending
	Segments   []SegmentRow
}

// Claim gives the next messages of the first candidate that has something
// above the group's position and no live lease. ErrNotFound: none has, or
// another claim or ack holds it at this moment.
func (db *DB) Claim(ctx context.Context, r ClaimRequest) (Claim, error) {
	if len(r.Partitions) == 0 {
		return Claim{}, ErrNotFound
	}
	var c Claim
	scan := func(row pgx.CollectableRow) (s SegmentRow, err error) {
		var until *time.Time
		err = row.Scan(&c.Partition, &c.Next, &c.End, &until, &c.Acked, &s.End, &s.Base, &s.CreatedAt,
			&s.MaxTimestamp, &s.Epoch, &s.Records, &s.Size, &s.Header, &s.Data)
		s.Partition = c.Partition
		if until != nil {
			c.LeaseUntil = *until
		}
		return s, err
	}
	segs, err := writeRows(ctx, db, db.write, "claim", scan, claimSQL, r.Group, r.Partitions, r.Batch, r.MaxBytes,
		r.Lease, r.LeaseFor.Milliseconds(), r.AutoAck, r.FromEnd)
	if err != nil {
		return Claim{}, err
	}
	if len(segs) == 0 {
		return Claim{}, ErrNotFound
	}
	c.Segments = segs
	return c, nil
}
