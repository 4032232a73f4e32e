package queen

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Fetch answers one Fetched per item, decoded, waiting as the request says. It moves no position.
func (e *Engine) Fetch(ctx context.Context, r FetchRequest) ([]Fetched, error) {
	items := make([]readState, len(r.Items))
	for i, it := range r.Items {
		p, err := e.lookupNamed(ctx, it.Queue, it.Partition)
		items[i] = readState{p: p, item: ReadItem{Offset: it.Offset, MaxBytes: it.MaxBytes, CurrentEpoch: -1, LastFetchedEpoch: -1}}
		if err != nil {
			items[i].p, items[i].answer = nil, noAnswer(err)
		}
	}
	out := make([]Fetched, len(items))
	deadline := time.Now().Add(r.MaxWait)
	for {
		held, err := e.read(ctx, items, ReadRequest{
			MinBytes: r.MinBytes, MaxWait: max(0, time.Until(deadline)), MaxBytes: r.MaxBytes, times: answerRoomTimes,
		})
		if err != nil {
			return nil, err
		}
		holes, found := false, false
		room := newUnpackRoom(answerRoomTimes * held.bytesMax)
		for i := range items {
			s := &items[i]
			out[i] = Fetched{Err: s.answer.Err, LogStart: s.answer.LogStart, HighWatermark: s.answer.HighWatermark}
			n := len(s.answer.Batches)
			if n == 0 || room.spent() {
				continue
			}
			last := lastOffset(s.answer.Batches[n-1])
			var cut bool
			if out[i].Messages, cut, err = s.p.decode(s.segs, s.item.Offset, last, room); err != nil {
				e.damaged(s.p, err)
				out[i].Err, found = fmt.Errorf("fetch: %w", err), true
				continue
			}
			if cut || len(out[i].Messages) > 0 {
				found = true
				continue
			}
			// The offset stands on holes at the end of a batch: dropped duplicates.
			// A reader of messages would ask for it for ever; it goes on behind them.
			s.item.Offset, holes = last+1, true
		}
		if r.Room != nil && held.n != 0 {
			r.Room.room = held.room
			r.Room.n += 2 * room.used
			held.settle(0, 2*room.used-held.n) // what was unpacked, and as text
			held.n = 0
		}
		held.Release()
		if !holes || found {
			break
		}
	}
	return out, nil
}

// unpackRoom is what one answer may still unpack. Batches are counted as they were
// sent, and a few KB may hold 64 MiB; a first message is given whatever its size.
type unpackRoom struct{ left, used int }

// newUnpackRoom is that of an answer which holds so much of the memory for answers.
func newUnpackRoom(held int) *unpackRoom { return &unpackRoom{left: max(held/2, answerRoomMin)} }

// take says whether a message fits.
func (u *unpackRoom) take(m *StoredMessage) bool {
	n := m.bytes()
	if n > u.left && u.used > 0 {
		u.left = 0 // what follows must not be given without this one
		return false
	}
	u.left -= n
	u.used += max(n, 1)
	return true
}

// spent says that no further message fits.
func (u *unpackRoom) spent() bool { return u.left <= 0 && u.used > 0 }

// decode unpacks the messages of segs with offsets from … to, as long as there is
// room for them; cut says that there was none for all, or that what follows cannot be
// read. It is an error only where nothing before it can.
func (p *partition) decode(segs []*segment, from, to int64, room *unpackRoom) (out []StoredMessage, cut bool, err error) {
	for _, seg := range segs {
		past := false
		err := seg.messages(from, math.MaxInt, func(m StoredMessage) bool {
			if past = m.Offset > to; past {
				return false
			}
			if cut = !room.take(&m); cut {
				return false
			}
			m.Partition, m.PartitionID = p.name, p.id
			out = append(out, m)
			return true
		})
		if err != nil && len(out) > 0 {
			return out, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		if cut || past {
			break
		}
	}
	return out, cut, nil
}

// lastOffset is the last offset a patched batch consumes.
func lastOffset(batch []byte) int64 {
	return int64(binary.BigEndian.Uint64(batch)) + int64(int32(binary.BigEndian.Uint32(batch[batchAtLastDelta:])))
}

// lookupNamed finds a partition by name without making it.
func (e *Engine) lookupNamed(ctx context.Context, queueName, name string) (*partition, error) {
	if err := ValidateName("queue", queueName); err != nil {
		return nil, err
	}
	if name == "" {
		name = DefaultPartition
	}
	q, err := e.catalog.queue(ctx, QueueRef{Name: queueName})
	if err != nil {
		return nil, err
	}
	if p := q.named(name); p != nil {
		return p, nil
	}
	if err := e.catalog.reload(ctx, q); err != nil {
		return nil, err
	}
	if q = e.catalog.cached(QueueRef{Name: queueName}); q != nil {
		if p := q.named(name); p != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: %q has no partition %q", ErrUnknownPartition, queueName, name)
}

// FetchItem asks for one partition's messages, decoded, by names (native API).
type FetchItem struct {
	Queue     string
	Partition string // empty: Default
	Offset    int64
	MaxBytes  int
}

// FetchRequest reads from partitions by offset without moving any position.
type FetchRequest struct {
	Items    []FetchItem
	MinBytes int           // wait until this much is there …
	MaxWait  time.Duration // … or this long
	MaxBytes int           // of batches as they are served, soft, over all items: the first message is returned whole
	// Room, where it is set, holds the memory of the answer until it is released.
	Room *AnswerRoom
}

// Fetched answers one FetchItem.
type Fetched struct {
	Err           error
	Messages      []StoredMessage
	LogStart      int64
	HighWatermark int64
}
