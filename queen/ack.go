package queen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"queenmq/dedup"
	"queenmq/store"
)

// reasonMax bounds the text kept with a dead letter; more is cut.
const reasonMax = 4096

// ackKey is what acks of one cursor under one lease have in common.
type ackKey struct {
	group     string
	partition int64
	lease     uuid.UUID
}

// outcomes are the ledger's words.
var outcomes = map[AckStatus]store.Outcome{
	AckCompleted: store.Completed, AckFailed: store.Failed, AckRetry: store.GivenBack, AckDead: store.Dead,
}

// Ack answers one Acked per ack, in order. All go in one call, which is repeated
// until its outcome is known and takes effect once; each cursor is judged for itself.
func (e *Engine) Ack(ctx context.Context, acks []Ack) []Acked {
	out := make([]Acked, len(acks))
	cursors := e.resolveAcks(ctx, acks, out)
	if len(cursors) == 0 {
		return out
	}
	rows := make([]store.CursorAck, len(cursors))
	for i := range cursors {
		rows[i] = cursors[i].CursorAck
	}
	verdicts, err := e.ackUntilKnown(ctx, rows)
	for i, c := range cursors {
		var v store.Acked
		if err == nil {
			v = verdicts[i]
		}
		failed := err
		switch {
		case err != nil:
			failed = storeError("ack", err)
		case v.Err != nil:
			failed = ackRefusal(&c.CursorAck, v.Err)
		}
		for n, at := range c.index {
			out[at].Err = failed
			out[at].Dead = failed == nil && slices.Contains(v.Dead, c.Offsets[n])
		}
	}
	return out
}

// ackUntilKnown makes one call of acks, in the order the ledger wants, and tells
// the hotlist of leases that ended with it.
func (e *Engine) ackUntilKnown(ctx context.Context, acks []store.CursorAck) ([]store.Acked, error) {
	order := make([]int, len(acks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(acks[a].Partition, acks[b].Partition), cmp.Compare(acks[a].Group, acks[b].Group))
	})
	sorted := make([]store.CursorAck, len(acks))
	for i, at := range order {
		sorted[i] = acks[at]
	}
	call := uuid.Must(uuid.NewV7())
	var verdicts []store.Acked
	err := e.untilKnown(ctx, func(ctx context.Context) (err error) {
		verdicts, err = e.db.Ack(ctx, call, sorted)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]store.Acked, len(acks))
	for i, at := range order {
		v := verdicts[i]
		out[at] = v
		if v.Err == nil && !v.Live {
			e.ended(sorted[i].Group, sorted[i].Partition, v)
		}
	}
	return out, nil
}

// ended tells the hotlist that a group's lease in a partition is over.
func (e *Engine) ended(group string, partition int64, v store.Acked) {
	more := true
	if p := e.hotlist.heldPartition(group, partition); p != nil {
		m := p.marks()
		more = !m.known || v.Next < m.next
	}
	e.hotlist.ended(group, partition, more, v.Wait)
}

// cursorAcks are acks of one cursor with where they stand in the request.
type cursorAcks struct {
	store.CursorAck
	index []int
}

// resolveAcks checks the acks, finds their offsets and groups them by cursor. What
// is refused has its error in out.
func (e *Engine) resolveAcks(ctx context.Context, acks []Ack, out []Acked) []cursorAcks {
	byKey := map[ackKey][]int{}
	var order []ackKey
	for i, a := range acks {
		group, err := groupName(a.Group)
		if _, ok := outcomes[a.Status]; !ok && err == nil {
			err = fmt.Errorf("%w: status %q; use completed, failed, retry or dlq", ErrInvalidRequest, a.Status)
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		k := ackKey{group, a.PartitionID, a.LeaseID}
		if byKey[k] == nil {
			order = append(order, k)
		}
		byKey[k] = append(byKey[k], i)
	}
	var cursors []cursorAcks
	for _, k := range order {
		index := byKey[k]
		offsets, err := e.resolve(ctx, k, acks, index)
		c := cursorAcks{CursorAck: store.CursorAck{Group: k.group, Partition: k.partition, Lease: k.lease}}
		for n, i := range index {
			switch {
			case err != nil:
				out[i].Err = err
			case offsets[n] == unknownID:
				out[i].Err = fmt.Errorf("%w: no message %q that the group is not done with is known in partition %d; it was completed before, or has aged out",
					ErrUnresolvable, acks[i].TransactionID, k.partition)
			default:
				c.index = append(c.index, i)
				c.Offsets = append(c.Offsets, offsets[n])
				c.Outcomes = append(c.Outcomes, outcomes[acks[i].Status])
				c.Reasons = append(c.Reasons, cleanReason(acks[i].Reason))
			}
		}
		if len(c.index) > 0 {
			cursors = append(cursors, c)
		}
	}
	return cursors
}

// cleanReason is a reason as text of the database: bounded, UTF-8, without U+0000.
func cleanReason(s string) string {
	if len(s) > reasonMax {
		s = s[:reasonMax]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// What resolve says of an id without an offset.
const (
	unknownID = -1
	// underLostLease: the lease named is over, so where the id lies does not matter, and
	// the group may long be past it. The ledger says so too, under the cursor's lock.
	underLostLease = store.OffsetUnderLostLease
)

// resolve finds the offsets of acknowledged ids: under the lease in what was given
// out, else through the sidecar.
func (e *Engine) resolve(ctx context.Context, k ackKey, acks []Ack, index []int) ([]int64, error) {
	offsets := make([]int64, len(index))
	var missing []int
	var from int64
	var read bool // the lease was read back
	for n, i := range index {
		at := leaseKey{k.lease, k.partition}
		offset, found, known := e.leases.offset(at, acks[i].TransactionID)
		if !known && !read {
			read = true
			live, next, err := e.readLease(ctx, k)
			if err != nil {
				return nil, err
			}
			if k.lease != uuid.Nil && k.lease != live {
				for n := range offsets {
					offsets[n] = underLostLease
				}
				return offsets, nil
			}
			k.lease = live // for the ids; what is judged is what was asked
			from = next
			offset, found, _ = e.leases.offset(leaseKey{k.lease, k.partition}, acks[i].TransactionID)
		}
		if offsets[n] = offset; !found {
			offsets[n] = unknownID
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 {
		return offsets, nil
	}
	if !read {
		rows, err := e.db.Cursors(ctx, k.group, []int64{k.partition})
		if err != nil {
			return nil, storeError("resolve ids", err)
		}
		if len(rows) > 0 {
			from = rows[0].Offset // nothing below it is open
		}
	}
	hashes := make([][16]byte, len(missing))
	uids := make([]store.UID, 0, len(missing))
	uidOf := make([]int, 0, len(missing))
	for m, n := range missing {
		id := acks[index[n]].TransactionID
		hashes[m] = dedup.Of(id)
		if hi, lo, ok := ParseID(id); ok {
			uids = append(uids, store.UID{Hi: hi, Lo: lo})
			uidOf = append(uidOf, n)
		}
	}
	byHash, byUID, err := e.db.ResolveIDs(ctx, k.partition, from, hashes, uids)
	if err != nil {
		return nil, storeError("resolve ids", err)
	}
	for m, n := range missing {
		offsets[n] = byHash[m]
	}
	for m, n := range uidOf {
		if offsets[n] < 0 {
			offsets[n] = byUID[m]
		}
	}
	return offsets, nil
}

// readLease reads back what lies under a lease that this broker does not
// remember: another one gave it, or it was long ago. It returns the lease that
// is live there and the group's position.
func (e *Engine) readLease(ctx context.Context, k ackKey) (live uuid.UUID, next int64, err error) {
	span, err := e.db.LeasedSpan(ctx, k.group, k.partition)
	if errors.Is(err, store.ErrNotFound) {
		return uuid.Nil, 0, nil
	}
	if err != nil {
		return uuid.Nil, 0, storeError("resolve ids", err)
	}
	if span.Lease == uuid.Nil || k.lease != uuid.Nil && k.lease != span.Lease {
		return uuid.Nil, span.Next, nil
	}
	var msgs []StoredMessage
	for at := span.Next; at <= span.End; {
		got, err := e.db.Read(ctx, []store.ReadSpan{{Partition: k.partition, Offset: at, MaxBytes: popBytesMax}}, popBytesMax)
		if err != nil {
			return uuid.Nil, 0, storeError("resolve ids", err)
		}
		if at < got[0].LogStart {
			at = got[0].LogStart
			continue
		}
		if len(got[0].Segments) == 0 {
			break
		}
		for _, row := range got[0].Segments {
			s, err := loadRow(row)
			if err != nil {
				return uuid.Nil, 0, err
			}
			err = s.messages(at, int(span.End-at+1), func(m StoredMessage) bool {
				if m.Offset > span.End {
					return false
				}
				msgs = append(msgs, StoredMessage{TransactionID: m.TransactionID, Offset: m.Offset})
				return true
			})
			if err != nil {
				return uuid.Nil, 0, fmt.Errorf("resolve ids: %w", err)
			}
			at = row.End + 1
		}
	}
	e.leases.keep(leaseKey{span.Lease, k.partition}, msgs)
	return span.Lease, span.Next, nil
}
