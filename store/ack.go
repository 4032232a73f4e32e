package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/ack.sql
	ackSQL string
	//go:embed query/ids_resolve.sql
	idsResolveSQL string
)

// AckedMax bounds the offsets a group may complete ahead of its position in a
// partition, and those that failed there.
const AckedMax = 10000

var (
	// ErrLeaseLost: the lease named by an ack is over, or was voided by a Kafka commit.
	ErrLeaseLost = errors.New("lease lost")
	// ErrTooManyAcked: AckedMax would be exceeded.
	ErrTooManyAcked = errors.New("too many messages completed ahead of the position")
)

// OffsetUnderLostLease stands for the offset of an id that was not looked for because
// the lease named was over; an ack with one is refused with ErrLeaseLost.
const OffsetUnderLostLease = -2

// Outcome is what became of a message.
type Outcome int16

// The outcomes of an acknowledgment.
const (
	Completed Outcome = iota
	Failed            // counted; beyond the queue's limit it is a dead letter
	GivenBack         // to be given again at once, not counted
	Dead              // a dead letter
)

// CursorAck acknowledges messages of one partition for one group. An offset
// without a record must be named like the others, or the position stops there.
type CursorAck struct {
	Group     string
	Partition int64
	Lease     uuid.UUID // they were given under; zero for whatever there is
	Offsets   []int64
	Outcomes  []Outcome // one per offset
	Reasons   []string  // nil, or one per offset; free text
}

// Acked is the verdict on a CursorAck.
type Acked struct {
	// Err: ErrLeaseLost, ErrNotFound (the group has no position there) or
	// ErrTooManyAcked; then nothing of it is noted.
	Err  error
	Next int64         // the group's position
	Live bool          // the lease goes on
	Wait time.Duration // after a failure: until then nothing is given
	Dead []int64       // offsets that became dead letters
}

// Ack notes what became of messages; one verdict per cursor, in order, each
// judged for itself. The acks must be in ascending (partition, group). A repeat with
// the same call id, at any broker, takes effect once and is answered like the first.
func (db *DB) Ack(ctx context.Context, call uuid.UUID, acks []CursorAck) ([]Acked, error) {
	n := len(acks)
	groups, partitions, leases, first := make([]string, n), make([]int64, n), make([]uuid.NullUUID, n), make([]int32, n)
	var offsets []int64
	var outcomes []int16
	var reasons []*string
	for i, a := range acks {
		groups[i], partitions[i] = a.Group, a.Partition
		leases[i] = uuid.NullUUID{UUID: a.Lease, Valid: a.Lease != uuid.Nil}
		first[i] = int32(len(offsets) + 1)
		offsets = append(offsets, a.Offsets...)
		for j := range a.Offsets {
			outcomes = append(outcomes, int16(a.Outcomes[j]))
			var reason *string
			if a.Reasons != nil && a.Reasons[j] != "" {
				reason = &a.Reasons[j]
			}
			reasons = append(reasons, reason)
		}
	}
	i := -1
	scan := func(row pgx.CollectableRow) (a Acked, err error) {
		var status int16
		var next, wait *int64
		err = row.Scan(&status, &next, &a.Live, &wait, &a.Dead)
		if err != nil {
			return a, err
		}
		i++
		a.Next = orMinus1(next)
		if wait != nil {
			a.Wait = time.Duration(*wait) * time.Millisecond
		}
		if err := ackError(status, acks[i].Group); err != nil {
			a.Err = fmt.Errorf("ack: %w", err)
		}
		return a, nil
	}
	return writeRows(ctx, db, db.write, "ack", scan, ackSQL, call, groups, partitions, leases, first, offsets, outcomes, reasons, AckedMax)
}

// ResolveIDs finds where ids lie in a partition: of each hash and of each minted
// id (Index is not used) the lowest offset at or above from, or −1 where the
// sidecar does not know it (any more).
func (db *DB) ResolveIDs(ctx context.Context, partition, from int64, hashes [][16]byte, uids []UID) (byHash, byUID []int64, err error) {
	hi, lo := make([]int64, len(uids)), make([]int64, len(uids))
	for i, u := range uids {
		hi[i], lo[i] = u.Hi, u.Lo
	}
	type place struct {
		i      int
		offset int64
	}
	scan := func(row pgx.CollectableRow) (p place, err error) {
		err = row.Scan(&p.i, &p.offset)
		return p, err
	}
	places, err := readRows(ctx, db, db.read, "resolve ids", scan, idsResolveSQL, partition, from, uuidArray(hashes), hi, lo)
	if err != nil {
		return nil, nil, err
	}
	byHash, byUID = make([]int64, len(hashes)), make([]int64, len(uids))
	for _, all := range [][]int64{byHash, byUID} {
		for i := range all {
			all[i] = -1
		}
	}
	for _, p := range places {
		if p.i > 0 {
			byHash[p.i-1] = p.offset
		} else {
			byUID[-p.i-1] = p.offset
		}
	}
	return byHash, byUID, nil
}

// ackError is why ack_apply_1 refused; nil for verdict 0.
func ackError(verdict int16, group string) error {
	switch verdict {
	case 0:
		return nil
	case 1:
		return ErrLeaseLost
	case 2:
		return fmt.Errorf("group %q has no position in the partition: %w", group, ErrNotFound)
	default:
		return fmt.Errorf("%w: at most %d", ErrTooManyAcked, AckedMax)
	}
}
