package queen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"queenmq/store"
)

// The special timestamps of OffsetQuery (Kafka's ListOffsets).
const (
	AtEnd          int64 = -1 // the high watermark
	AtStart        int64 = -2 // the log start offset
	AtMaxTimestamp int64 = -3 // the record with the highest timestamp (KIP-734)
)

// OffsetQuery asks for an offset by time: the first record whose timestamp is
// at or after Timestamp (milliseconds), or one of the special values.
type OffsetQuery struct {
	Partition    PartitionRef
	Timestamp    int64
	CurrentEpoch int32 // −1: not checked
}

// OffsetAnswer answers one OffsetQuery. With no such record Offset and Timestamp are −1.
type OffsetAnswer struct {
	Err       error
	Offset    int64
	Timestamp int64
	Epoch     int32 // of the record found; −1 for none
}

// EpochQuery asks where a leader epoch ended (Kafka's OffsetForLeaderEpoch).
type EpochQuery struct {
	Partition    PartitionRef
	CurrentEpoch int32 // −1: not checked
	Epoch        int32
}

// EpochAnswer answers one EpochQuery; epoch and end are −1 where unknown.
type EpochAnswer struct {
	Err error
	End EpochEnd
}

// Cursor is a group's position in a partition: the next offset to read.
type Cursor struct {
	Partition   PartitionRef // filled with name and topic id on reading
	Offset      int64        // −1: no position is stored, or what a client stored; below 0, a start over
	Epoch       int32        // leader epoch the client sent along, −1 for none
	Metadata    string       // at most 4,096 bytes
	CommittedAt time.Time
	Err         error
}

// ProducerID is an idempotent producer's identity: an id never given before, and its epoch.
type ProducerID struct {
	ID    int64
	Epoch int16
}

// Offsets answers one OffsetAnswer per query, from the database.
func (e *Engine) Offsets(ctx context.Context, qs []OffsetQuery) ([]OffsetAnswer, error) {
	e.meetIncarnation()
	out := make([]OffsetAnswer, len(qs))
	parts := make([]*partition, len(qs))
	var ids []int64
	look := e.catalog.lookups(len(qs), func(i int) QueueRef { return qs[i].Partition.Queue })
	for i, q := range qs {
		out[i] = noOffset
		p, err := look.partition(ctx, q.Partition)
		if err == nil {
			err = e.checkEpoch(q.CurrentEpoch)
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		parts[i] = p
		ids = append(ids, p.id)
	}
	if len(ids) == 0 {
		return out, nil
	}
	marks, err := e.db.Marks(ctx, ids)
	if err != nil {
		return nil, storeError("list offsets", err)
	}
	k := 0
	for i, p := range parts {
		if p == nil {
			continue
		}
		m := marks[k]
		k++
		if !m.Found {
			e.catalog.drop(p.queue)
			out[i].Err = unknownQueue(qs[i].Partition.Queue)
			continue
		}
		p.seen(m.Incarnation, m.LogStart, m.NextOffset)
		out[i], err = e.offsetAt(ctx, p, qs[i].Timestamp, m)
		switch {
		case errors.Is(err, ErrCorruptBatch):
			e.damaged(p, err)
			out[i] = noOffset
			out[i].Err = err
		case err != nil:
			return nil, err
		}
	}
	return out, nil
}

func (e *Engine) offsetAt(ctx context.Context, p *partition, at int64, m store.Mark) (OffsetAnswer, error) {
	a := noOffset
	epoch := e.db.Incarnation().Epoch
	switch {
	case at == AtEnd:
		a.Offset, a.Epoch = m.NextOffset, epoch
		return a, nil
	case at == AtStart:
		a.Offset, a.Epoch = m.LogStart, epoch
		return a, nil
	case at == AtMaxTimestamp:
		return e.atNewest(ctx, p, m)
	case at < 0:
		a.Err = fmt.Errorf("%w: timestamp %d has no meaning", ErrInvalidRequest, at)
		return a, nil
	}
	return e.atTime(ctx, p, at, m)
}

// EpochEnds answers one EpochAnswer per query, from the database.
func (e *Engine) EpochEnds(ctx context.Context, qs []EpochQuery) ([]EpochAnswer, error) {
	e.meetIncarnation()
	out := make([]EpochAnswer, len(qs))
	look := e.catalog.lookups(len(qs), func(i int) QueueRef { return qs[i].Partition.Queue })
	for i, q := range qs {
		out[i].End = EpochEnd{Epoch: -1, EndOffset: -1}
		p, err := look.partition(ctx, q.Partition)
		if err == nil {
			err = e.checkEpoch(q.CurrentEpoch)
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		if q.Epoch < 0 || q.Epoch > e.db.Incarnation().Epoch {
			continue // unknown to us: −1, as Kafka answers
		}
		end, ok, err := e.epochEnd(ctx, p, q.Epoch)
		if err != nil {
			return nil, err
		}
		if ok {
			out[i].End = end
		}
	}
	return out, nil
}

// epochEnd is the largest epoch of the log at or below the one asked, and
// where it ended. The current epoch ends at the log's end, also while empty.
func (e *Engine) epochEnd(ctx context.Context, p *partition, epoch int32) (EpochEnd, bool, error) {
	if epoch != e.db.Incarnation().Epoch {
		found, end, ok, err := e.db.EpochEnd(ctx, p.id, epoch)
		if err != nil {
			return EpochEnd{}, false, storeError("find the end of an epoch", err)
		}
		if ok {
			return EpochEnd{Epoch: found, EndOffset: end}, true, nil
		}
	}
	ms, err := e.db.Marks(ctx, []int64{p.id})
	if err != nil {
		return EpochEnd{}, false, storeError("read the log's end", err)
	}
	return EpochEnd{Epoch: epoch, EndOffset: ms[0].NextOffset}, ms[0].Found, nil
}

// NewProducer gives an idempotent producer an id that was never given before.
func (e *Engine) NewProducer(ctx context.Context) (ProducerID, error) {
	id, err := e.db.NewProducerID(ctx)
	if err != nil {
		return ProducerID{}, storeError("new producer id", err)
	}
	return ProducerID{ID: id}, nil
}

// MetadataBytesMax bounds the text stored with a committed offset, as Kafka's
// offset.metadata.max.bytes does.
const MetadataBytesMax = 4096

// commitRowsMax is how many positions one call stores: some 30 µs of the database
// each, under the locks of all of them.
const commitRowsMax = 2000

// CommitOffsets stores a group's positions under the Fence its Coordinator gave, in
// calls of 2,000; the answers carry Err per partition. What is refused does not
// keep the rest from being stored; what was stored stays when a later call fails, and
// the rest has that error. A position is kept as it is, whatever the log has.
// Below 0, by which Kafka clients mean "start over", or below the log start, a native
// group reads on from the log start; above the log's end, from that end as it was when
// the position was committed; where a failover lost what was read, from where it did.
// An error besides the answers: nothing is known to be stored. ErrNotCoordinator:
// another broker has taken the group over since.
func (e *Engine) CommitOffsets(ctx context.Context, group string, under Fence, cs []Cursor) ([]Cursor, error) {
	if err := ValidateName("group", group); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidGroup, err)
	}
	under = e.brokers.begun(under)
	out := make([]Cursor, len(cs))
	moves := make([]move, 0, len(cs))
	look := e.catalog.lookups(len(cs), func(i int) QueueRef { return cs[i].Partition.Queue })
	for i, c := range cs {
		out[i] = c
		p, err := look.partition(ctx, c.Partition)
		switch {
		case err != nil:
			out[i].Err = err
		case len(c.Metadata) > MetadataBytesMax:
			out[i].Err = fmt.Errorf("%w: %d bytes, at most %d are stored", ErrMetadataTooLarge, len(c.Metadata), MetadataBytesMax)
		default:
			moves = append(moves, move{i, p, store.CursorRow{
				Partition: p.id, Offset: c.Offset, Epoch: c.Epoch, Metadata: []byte(c.Metadata),
			}})
		}
	}
	stored, err := e.commit(ctx, group, under, moves, true, func(m move, gone bool) {
		if gone {
			out[m.i].Err = unknownQueue(cs[m.i].Partition.Queue)
		}
	})
	if err != nil {
		err = groupError("commit offsets", group, err)
		if stored == 0 {
			return nil, err
		}
		for _, m := range moves[stored:] {
			out[m.i].Err = err
		}
	}
	return out, nil
}

// move is a position for a group in a partition.
type move struct {
	i   int // in the request
	to  *partition
	row store.CursorRow
}

// commit stores positions in calls of commitRowsMax, in ascending partition: moves is
// sorted so. It ends at the first call that fails, and says how many moves the calls
// before had; of each of those told says whether its partition is gone.
func (e *Engine) commit(ctx context.Context, group string, under Fence, moves []move, kafka bool, told func(m move, gone bool)) (int, error) {
	slices.SortStableFunc(moves, func(a, b move) int { return cmp.Compare(a.row.Partition, b.row.Partition) })
	done := 0
	for step := range slices.Chunk(moves, commitRowsMax) {
		rows := make([]store.CursorRow, len(step))
		for i, m := range step {
			rows[i] = m.row
		}
		gone, err := e.db.CommitCursors(ctx, group, under, rows, kafka)
		if err != nil {
			return done, err
		}
		for i, m := range step {
			told(m, gone[i])
			e.hotlist.moved(group, m.to) // a lease there is void, and the position another
		}
		done += len(step)
	}
	return done, nil
}

// FetchOffsets reads a group's positions; nil refs means all of them. A
// partition without one is answered with offset −1.
func (e *Engine) FetchOffsets(ctx context.Context, group string, refs []PartitionRef) ([]Cursor, error) {
	if err := ValidateName("group", group); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidGroup, err)
	}
	if refs == nil {
		return e.allOffsets(ctx, group)
	}
	out := make([]Cursor, len(refs))
	parts := make([]*partition, len(refs))
	ids := make([]int64, 0, len(refs))
	look := e.catalog.lookups(len(refs), func(i int) QueueRef { return refs[i].Queue })
	for i, r := range refs {
		out[i] = Cursor{Partition: r, Offset: -1, Epoch: -1}
		p, err := look.partition(ctx, r)
		if err != nil {
			out[i].Err = err
			continue
		}
		parts[i] = p
		ids = append(ids, p.id)
	}
	rows, err := e.db.Cursors(ctx, group, ids)
	if err != nil {
		return nil, storeError("fetch offsets", err)
	}
	at := make(map[int64]store.CursorRow, len(rows))
	for _, r := range rows {
		at[r.Partition] = r
	}
	for i, p := range parts {
		if p == nil {
			continue
		}
		if r, ok := at[p.id]; ok {
			out[i] = cursorOf(p.ref(), r)
		}
	}
	return out, nil
}

func (e *Engine) allOffsets(ctx context.Context, group string) ([]Cursor, error) {
	rows, err := e.db.Cursors(ctx, group, nil)
	if err != nil {
		return nil, storeError("fetch offsets", err)
	}
	out := make([]Cursor, 0, len(rows))
	for _, r := range rows {
		ref := PartitionRef{Queue: QueueRef{Name: r.Queue, TopicID: r.TopicID}, Number: int32(r.Number)}
		out = append(out, cursorOf(ref, r))
	}
	return out, nil
}

func cursorOf(ref PartitionRef, r store.CursorRow) Cursor {
	return Cursor{
		Partition: ref, Offset: r.Committed, Epoch: r.Epoch, Metadata: string(r.Metadata), CommittedAt: r.CommittedAt,
	}
}
