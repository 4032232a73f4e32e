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
	//go:embed query/slot_list.sql
	slotListSQL string
	//go:embed query/slots_assign.sql
	slotsAssignSQL string
)

// GroupSlots is how many slots the coordination of consumer groups is cut into.
const GroupSlots = 64

// ErrFenced: nothing was written, the slot changed hands since.
var ErrFenced = errors.New("fenced: another broker coordinates the group")

// Fence is what a coordinator writes under: a slot and the epoch in which it is
// its own. Epoch 0, which no owner ever has, asks for nothing.
type Fence struct {
	Slot  int
	Epoch int64
	// Serial rises from write to write of the owner, as they were begun: one that
	// arrives after a later one leaves what that one wrote.
	Serial int64
}

// SlotRow is who coordinates the groups of a slot.
type SlotRow struct {
	Owner uuid.UUID // a process, as BrokerRow.Instance; zero: nobody
	Epoch int64     // raised whenever the owner changes
}

// Slots returns all slots, by number.
func (db *DB) Slots(ctx context.Context) (slots [GroupSlots]SlotRow, err error) {
	rows, err := readRows(ctx, db, db.admin, "list slots", func(row pgx.CollectableRow) (s SlotRow, err error) {
		var owner *uuid.UUID
		err = row.Scan(&owner, &s.Epoch)
		if owner != nil {
			s.Owner = *owner
		}
		return s, err
	}, slotListSQL)
	if err == nil && len(rows) != GroupSlots {
		err = fmt.Errorf("list slots: there are %d, want %d", len(rows), GroupSlots)
	}
	copy(slots[:], rows)
	return slots, err
}

// AssignSlots gives slots to processes, the zero one being nobody, as far as they
// are self's, nobody's, or of a broker that is dead. It says how many changed hands.
func (db *DB) AssignSlots(ctx context.Context, self uuid.UUID, owners map[int]uuid.UUID) (int, error) {
	numbers, to := make([]int32, 0, len(owners)), make([]*uuid.UUID, 0, len(owners))
	for slot, owner := range owners {
		numbers = append(numbers, int32(slot))
		if owner == uuid.Nil {
			to = append(to, nil)
		} else {
			to = append(to, &owner)
		}
	}
	return only(writeRows(ctx, db, db.admin, "assign slots", pgx.RowTo[int], slotsAssignSQL,
		self, numbers, to, BrokerDeadAfter.Milliseconds()))
}
