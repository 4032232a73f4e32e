package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/claim.sql
	claimSQL string
	//go:embed query/ready_list.sql
	readyListSQL string
	//go:embed query/subscribe.sql
	subscribeSQL string
)

// ClaimRequest asks for the next messages of a group.
type ClaimRequest struct {
	Group      string
	Partitions []int64       // candidates, ascending
	Most       int           // partitions to give at most; at least 1
	Batch      int           // offsets at most, all together; at least 1
	MaxBytes   int           // of segments, all together; the first comes in any case
	Lease      uuid.UUID     // the id of the lease to give, a UUIDv7 minted by the caller
	LeaseFor   time.Duration // from now by the database's clock; 0: as each queue says
}

// Claim is a leased range of offsets of one partition and the segments that cover it.
type Claim struct {
	Partition int64
	// Next … End are the offsets given. Those in Acked were completed before,
	// and some may hold no record.
	Next, End int64
	Left      time.Duration // of the lease, by the database's clock
	Acked     []int64       // ascending
	Segments  []SegmentRow
}

// Refusal is why a candidate was not given.
type Refusal int16

// The reasons why a candidate is not given.
const (
	ClaimNothing Refusal = iota + 1 // nothing is there
	ClaimLater                      // a lease is live, or a delay runs
	ClaimBusy                       // another claim or ack holds it at this moment
	ClaimGone                       // it does not exist (any more)
	ClaimUnknown                    // the group has no position here and never subscribed to the queue
)

// Refused is a candidate that was looked at and not given.
type Refused struct {
	Partition int64
	Why       Refusal
	In        time.Duration // with ClaimLater: when to look again
}

// Claim gives the next messages of the first candidates that have something above
// the group's position and no live lease. A candidate that is in neither list was
// not looked at. Repeating a claim whose outcome is unknown is right: what the
// lease covers already is found again.
func (db *DB) Claim(ctx context.Context, r ClaimRequest) (given []Claim, refused []Refused, err error) {
	if len(r.Partitions) == 0 {
		return nil, nil, nil
	}
	var lease *int64
	if r.LeaseFor > 0 {
		ms := r.LeaseFor.Milliseconds()
		lease = &ms
	}
	scan := func(row pgx.CollectableRow) (_ struct{}, err error) {
		var c Claim
		var s struct {
			end, base, maxTimestamp *int64
			createdAt               *time.Time
			epoch, records, size    *int32
			header, data            []byte
		}
		var why Refusal
		var ms, next, end *int64
		if err := row.Scan(&c.Partition, &why, &ms, &next, &end, &c.Acked, &s.end, &s.base, &s.createdAt,
			&s.maxTimestamp, &s.epoch, &s.records, &s.size, &s.header, &s.data); err != nil {
			return struct{}{}, err
		}
		var in time.Duration
		if ms != nil {
			in = time.Duration(*ms) * time.Millisecond
		}
		if why != 0 {
			refused = append(refused, Refused{Partition: c.Partition, Why: why, In: in})
			return struct{}{}, nil
		}
		if n := len(given); n == 0 || given[n-1].Partition != c.Partition {
			c.Next, c.End, c.Left = *next, *end, in
			given = append(given, c)
		}
		last := &given[len(given)-1]
		last.Segments = append(last.Segments, SegmentRow{
			Partition: c.Partition, End: *s.end, Base: *s.base, CreatedAt: *s.createdAt, MaxTimestamp: *s.maxTimestamp,
			Epoch: *s.epoch, Records: int(*s.records), Size: int(*s.size), Header: s.header, Data: s.data,
		})
		return struct{}{}, nil
	}
	_, err = writeRows(ctx, db, db.write, "claim", scan, claimSQL, r.Group, r.Partitions, r.Most, r.Batch, r.MaxBytes, r.Lease, lease)
	if err != nil {
		return nil, nil, err
	}
	return given, refused, nil
}

// GroupQueue is a group at a queue.
type GroupQueue struct {
	Queue int64
	Group string
}

// Ready is a partition that a group could claim.
type Ready struct {
	Pair      int // in the list asked for
	Partition int64
	// Unknown: the group has no position here and never subscribed to the queue.
	Unknown bool
	In      time.Duration // kept back so long yet, by the database's clock
}

// Ready lists what groups could claim in queues, up to rowsMax partitions: a
// look, Claim judges.
func (db *DB) Ready(ctx context.Context, pairs []GroupQueue, rowsMax int) ([]Ready, error) {
	queues, groups := make([]int64, len(pairs)), make([]string, len(pairs))
	for i, p := range pairs {
		queues[i], groups[i] = p.Queue, p.Group
	}
	scan := func(row pgx.CollectableRow) (r Ready, err error) {
		var ms *int64
		err = row.Scan(&r.Pair, &r.Partition, &r.Unknown, &ms)
		r.Pair--
		if ms != nil {
			r.In = time.Duration(*ms) * time.Millisecond
		}
		return r, err
	}
	return readRows(ctx, db, db.read, "list what can be claimed", scan, readyListSQL, queues, groups, rowsMax)
}

// Subscription says where a group begins in a queue it asks for the first time.
// The zero value: with everything that is stored.
type Subscription struct {
	From time.Time     // with what was stored after then
	New  bool          // with what was stored after its first request, …
	Ago  time.Duration // … which it made so long ago
}

// Subscribe notes where a group begins in queues. What was noted before stays.
func (db *DB) Subscribe(ctx context.Context, queues []int64, group string, s Subscription) error {
	var from *time.Time
	var ago *int64
	switch {
	case !s.From.IsZero():
		from = &s.From
	case s.New:
		ms := s.Ago.Milliseconds()
		ago = &ms
	}
	_, err := writeRows(ctx, db, db.write, "subscribe", noColumns,
		subscribeSQL, queues, group, from, ago)
	return err
}
