package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/ack.sql
	ackSQL string
	//go:embed query/ids_resolve.sql
	idsResolveSQL string
)

// AckedMax bounds the offsets a group may complete ahead of its position in a partition.
const AckedMax = 10000

var (
	// ErrLeaseLost: the lease named by an ack is over, or was voided by a Kafka commit.
	ErrLeaseLost = errors.New("lease lost")
	// ErrTooManyAcked: AckedMax would be exceeded.
	ErrTooManyAcked = errors.New("too many messages completed ahead of the position")
)

// Ack notes that a group completed offsets of a partition; an offset without a
// record must be named like the others, or the position stops there. lease is
// the lease they were given under, or zero for whatever there is. With retry
// the lease ends, and what is left can be claimed at once. It returns the
// group's position, which never moves back, and whether the lease goes on.
//
// Repeating an ack whose outcome is unknown is right: what it completed stays
// completed, only a lease that it ended is then answered ErrLeaseLost.
func (db *DB) Ack(ctx context.Context, group string, partition int64, lease uuid.UUID, offsets []int64, retry bool) (next int64, live bool, err error) {
	type answer struct {
		status int16
		next   *int64
		live   bool
	}
	scan := func(row pgx.CollectableRow) (a answer, err error) {
		err = row.Scan(&a.status, &a.next, &a.live)
		return a, err
	}
	a, err := only(writeRows(ctx, db, db.write, "ack", scan, ackSQL, group, partition,
		uuid.NullUUID{UUID: lease, Valid: lease != uuid.Nil}, offsets, retry, AckedMax))
	if err != nil {
		return 0, false, err
	}
	switch a.status {
	case 0:
		return *a.next, a.live, nil
	case 1:
		return *a.next, a.live, fmt.Errorf("ack: %w", ErrLeaseLost)
	case 2:
		return 0, false, fmt.Errorf("ack: group %q has no position in the partition: %w", group, ErrNotFound)
	default:
		return *a.next, a.live, fmt.Errorf("ack: %w: at most %d", ErrTooManyAcked, AckedMax)
	}
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
