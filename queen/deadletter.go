package queen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"queenmq/dedup"
	"queenmq/store"
)

// The bounds of what is done with dead letters at once.
const (
	DeadLettersMax   = 1000
	deadLetterBytes  = 32 << 20 // messages of one page; a first one comes in any case
	replayHeader     = "queen-replay-of"
	deadLetterIDMore = 32 // of a replay's id, beside the original's
)

// DeadQuery chooses dead letters of a queue; what is nil or zero is any.
type DeadQuery struct {
	Queue     string
	Partition string
	Group     *string // empty: the group-less mode
	IDs       []int64
	// TransactionID is of the message.
	TransactionID []byte
	From, To      time.Time // when it died; To is not included
	Limit, Skip   int       // Limit 0: DeadLettersMax
}

// DeadLetter is a message a group gave up on.
type DeadLetter struct {
	ID       int64 // never reused
	Queue    string
	Group    string // empty: the group-less mode
	Failures int    // that were counted
	Reason   string
	DiedAt   time.Time
	// Message is as it was stored. Lost: its bytes were gone when it died, and
	// only Offset, Partition and PartitionID of it are known.
	Message StoredMessage
	Lost    bool
}

// Replayed is what became of a dead letter that was to be replayed.
type Replayed struct {
	Letter DeadLetter
	Pushed Pushed // of the message it is now
	Err    error  // it is still a dead letter
}

// DeadLetters lists dead letters, oldest first, and says how many there are. A page
// may be short of its limit where messages are large.
func (e *Engine) DeadLetters(ctx context.Context, q DeadQuery) ([]DeadLetter, int, error) {
	f, err := e.deadFilter(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	if q.Limit <= 0 || q.Limit > DeadLettersMax {
		q.Limit = DeadLettersMax
	}
	if q.TransactionID == nil {
		rows, total, err := e.db.DeadLetters(ctx, f, q.Limit, q.Skip)
		if err != nil {
			return nil, 0, storeError("list dead letters", err)
		}
		letters, err := e.loadLetters(ctx, q.Queue, rows, deadLetterBytes)
		return letters, total, err
	}
	// Ids are in the segments: all letters are looked at.
	var found []DeadLetter
	total := 0
	for at := 0; ; {
		rows, _, err := e.db.DeadLetters(ctx, f, DeadLettersMax, at)
		if err != nil {
			return nil, 0, storeError("list dead letters", err)
		}
		letters, err := e.loadLetters(ctx, q.Queue, rows, deadLetterBytes)
		if err != nil {
			return nil, 0, err
		}
		for _, l := range letters {
			if bytes.Equal(l.Message.TransactionID, q.TransactionID) {
				if total++; total > q.Skip && len(found) < q.Limit {
					found = append(found, l)
				}
			}
		}
		if at += len(letters); len(letters) == 0 {
			return found, total, nil
		}
	}
}

// deadFilter resolves names.
func (e *Engine) deadFilter(ctx context.Context, q DeadQuery) (store.DeadFilter, error) {
	f := store.DeadFilter{IDs: q.IDs, From: q.From, To: q.To}
	queue, err := e.catalog.queue(ctx, QueueRef{Name: q.Queue})
	if err != nil {
		return f, err
	}
	f.Queue = queue.id
	if q.Partition != "" {
		p, err := e.lookupNamed(ctx, q.Queue, q.Partition)
		if err != nil {
			return f, err
		}
		f.Partition = p.id
	}
	if q.Group != nil {
		group, err := groupName(*q.Group)
		if err != nil {
			return f, err
		}
		f.Group = &group
	}
	return f, nil
}

// loadLetters decodes the messages, up to max bytes of them.
func (e *Engine) loadLetters(ctx context.Context, queue string, rows []store.DeadLetter, max int) ([]DeadLetter, error) {
	letters := make([]DeadLetter, 0, len(rows))
	var seg *segment
	var of store.DeadLetter // the letter seg was loaded for
	for _, r := range rows {
		l := DeadLetter{
			ID: r.ID, Queue: queue, Group: r.Group, Failures: r.Failures, Reason: r.Reason, DiedAt: r.DiedAt, Lost: true,
			Message: StoredMessage{Offset: r.Offset, Partition: r.PartitionName, PartitionID: r.Partition},
		}
		if r.Group == ownGroup {
			l.Group = ""
		}
		if r.SegmentEnd >= 0 && (seg == nil || of.Partition != r.Partition || of.SegmentEnd != r.SegmentEnd) {
			row, err := e.db.DeadSegment(ctx, r.Partition, r.SegmentEnd)
			if errors.Is(err, store.ErrNotFound) {
				continue // purged meanwhile
			}
			if err != nil {
				return nil, storeError("read a dead letter", err)
			}
			if seg, err = loadRow(row); err != nil {
				return nil, err
			}
			of = r
		}
		if r.SegmentEnd >= 0 {
			err := seg.messages(r.Offset, 1, func(m StoredMessage) bool {
				if m.Offset == r.Offset {
					m.Partition, m.PartitionID = r.PartitionName, r.Partition
					l.Message, l.Lost = m.detached(), false
				}
				return false
			})
			if err != nil {
				return nil, fmt.Errorf("read a dead letter: %w", err)
			}
		}
		if max -= l.Message.bytes(); max < 0 && len(letters) > 0 {
			break
		}
		letters = append(letters, l)
	}
	return letters, nil
}

// PurgeDeadLetters forgets the dead letters chosen, all of them, and says how many there were.
func (e *Engine) PurgeDeadLetters(ctx context.Context, q DeadQuery) (int, error) {
	f, err := e.deadFilter(ctx, q)
	if err != nil {
		return 0, err
	}
	for n := 0; ; {
		var ids []int64
		if q.TransactionID != nil {
			letters, _, err := e.DeadLetters(ctx, DeadQuery{Queue: q.Queue, Partition: q.Partition, Group: q.Group, IDs: q.IDs, TransactionID: q.TransactionID, From: q.From, To: q.To})
			if err != nil {
				return n, err
			}
			for _, l := range letters {
				ids = append(ids, l.ID)
			}
		} else {
			rows, _, err := e.db.DeadLetters(ctx, f, DeadLettersMax, 0)
			if err != nil {
				return n, storeError("list dead letters", err)
			}
			for _, r := range rows {
				ids = append(ids, r.ID)
			}
		}
		if len(ids) == 0 {
			return n, nil
		}
		gone, err := e.forgetLetters(ctx, ids)
		if err != nil {
			return n, storeError("purge dead letters", err)
		}
		n += gone
	}
}

// forgetLetters deletes dead letters and says how many there were.
func (e *Engine) forgetLetters(ctx context.Context, ids []int64) (n int, err error) {
	call := uuid.Must(uuid.NewV7())
	err = e.untilKnown(ctx, func(ctx context.Context) (err error) {
		n, err = e.db.DeleteDeadLetters(ctx, call, ids)
		return err
	})
	return n, err
}

// ReplayDeadLetters pushes the dead letters chosen again, up to Limit of them, each at the end
// of its partition and under an id of its own, and forgets them. A replay that is
// repeated, after a lost answer too, stores nothing twice.
func (e *Engine) ReplayDeadLetters(ctx context.Context, q DeadQuery) ([]Replayed, error) {
	letters, _, err := e.DeadLetters(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]Replayed, len(letters))
	for i, l := range letters {
		out[i].Letter = l
		if l.Lost {
			out[i].Err = fmt.Errorf("%w: its bytes were gone when it died; purge it", ErrUnresolvable)
			continue
		}
		out[i].Pushed, out[i].Err = e.replay(ctx, l)
	}
	return out, nil
}

// replayMessage is what a dead letter is pushed as. Its id is new, because the
// original's may be known still, and always the same.
func replayMessage(l *DeadLetter) Message {
	m := &l.Message
	id := m.TransactionID
	if n := IDBytesMax - deadLetterIDMore; len(id) > n {
		id = id[:n]
	}
	id = append(append(id[:len(id):len(id)], "#replay-"...), strconv.FormatInt(l.ID, 10)...)
	return Message{
		Queue: l.Queue, Partition: m.Partition, ID: id, Key: m.Key, Value: m.Value, TraceID: m.TraceID,
		Headers: append(m.Headers[:len(m.Headers):len(m.Headers)], Header{Key: replayHeader, Value: m.TransactionID}),
	}
}

// FindMessage finds a message by its id, in the log or else among the dead letters
// of its partition (then dead says so). ErrUnresolvable: there is none.
func (e *Engine) FindMessage(ctx context.Context, partitionID int64, id []byte) (queue string, m StoredMessage, dead *DeadLetter, err error) {
	queue, name, start, err := e.db.PartitionPlace(ctx, partitionID)
	if errors.Is(err, store.ErrNotFound) {
		return "", m, nil, fmt.Errorf("%w: there is no partition %d", ErrUnresolvable, partitionID)
	}
	if err != nil {
		return "", m, nil, storeError("find message", err)
	}
	var uids []store.UID
	if hi, lo, ok := ParseID(id); ok {
		uids = []store.UID{{Hi: hi, Lo: lo}}
	}
	byHash, byUID, err := e.db.ResolveIDs(ctx, partitionID, start, [][16]byte{dedup.Of(id)}, uids)
	if err != nil {
		return "", m, nil, storeError("find message", err)
	}
	offset := byHash[0]
	if offset < 0 && len(byUID) > 0 {
		offset = byUID[0]
	}
	if offset >= 0 {
		got, err := e.db.Read(ctx, []store.ReadSpan{{Partition: partitionID, Offset: offset, MaxBytes: 1}}, 1)
		if err != nil {
			return "", m, nil, storeError("find message", err)
		}
		for _, row := range got[0].Segments {
			seg, err := loadRow(row)
			if err != nil {
				return "", m, nil, err
			}
			msgs, _, err := (&partition{id: partitionID, name: name}).decode([]*segment{seg}, offset, offset, newUnpackRoom(0))
			if err != nil || len(msgs) > 0 {
				if err == nil {
					m = msgs[0]
				}
				return queue, m, nil, err
			}
		}
	}
	letters, _, err := e.DeadLetters(ctx, DeadQuery{Queue: queue, Partition: name, TransactionID: id, Limit: 1})
	if err != nil {
		return "", m, nil, err
	}
	if len(letters) == 0 {
		return "", m, nil, fmt.Errorf("%w: no message %q in partition %d is known; it may have aged out", ErrUnresolvable, id, partitionID)
	}
	return queue, letters[0].Message, &letters[0], nil
}

// replayNS is where the replays of dead letters are noted, by their number: for ever
// until the letter is forgotten, and a while after, for whoever read it before.
const (
	replayNS      = "queen.replayed"
	replaySeconds = 3600
)

// replay pushes one letter and forgets it. The push and the note that it happened
// are one transaction, so whoever comes second finds the note, whatever the
// queue's window; the letter goes after.
func (e *Engine) replay(ctx context.Context, l DeadLetter) (Pushed, error) {
	m := replayMessage(&l)
	note := KVOp{Op: KVPutIfAbsent, NS: replayNS, Key: strconv.FormatInt(l.ID, 10), Value: []byte("true"), Forever: true, Required: true}
	got, err := e.Transact(ctx, Transaction{Operations: []Operation{{Push: []Message{m}}}, KV: []KVOp{note}})
	if err != nil {
		return Pushed{}, err
	}
	out := Pushed{Status: Duplicate, TransactionID: m.ID, Partition: m.Partition, Offset: -1}
	switch got.Reason {
	case rollbackNone, RollbackDuplicate:
		out = got.Pushed[0]
	case RollbackKVPrecondition: // replayed before
	default:
		return out, got.Err
	}
	if _, err := e.forgetLetters(ctx, []int64{l.ID}); err != nil {
		return out, storeError("replay", err)
	}
	note.Op, note.Forever, note.Required, note.TTLSeconds = KVPut, false, false, replaySeconds
	if _, err := e.KV(ctx, []KVOp{note}); err != nil {
		return out, err
	}
	return out, nil
}
