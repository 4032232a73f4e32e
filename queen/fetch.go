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
		err := e.read(ctx, items, ReadRequest{MinBytes: r.MinBytes, MaxWait: max(0, time.Until(deadline)), MaxBytes: r.MaxBytes})
		if err != nil {
			return nil, err
		}
		holes, found := false, false
		left := e.cfg.ReadBytesMax // of messages: what batches unpack to is not bounded by what they are
		for i := range items {
			s := &items[i]
			out[i] = Fetched{Err: s.answer.Err, LogStart: s.answer.LogStart, HighWatermark: s.answer.HighWatermark}
			n := len(s.answer.Batches)
			if n == 0 || left <= 0 {
				continue
			}
			last := lastOffset(s.answer.Batches[n-1])
			if out[i].Messages, err = s.p.decode(s.segs, s.item.Offset, last, left); err != nil {
				return nil, fmt.Errorf("fetch: %w", err)
			}
			for k := range out[i].Messages {
				left -= out[i].Messages[k].bytes()
			}
			if len(out[i].Messages) > 0 {
				found = true
				continue
			}
			// The offset stands on holes at the end of a batch: dropped duplicates.
			// A reader of messages would ask for it for ever; it goes on behind them.
			s.item.Offset, holes = last+1, true
		}
		if !holes || found {
			break
		}
	}
	return out, nil
}

// decode unpacks the messages of segs with offsets from … to, until they have bytesMax
// bytes; the one that makes them have so many is the last.
func (p *partition) decode(segs []*segment, from, to int64, bytesMax int) ([]StoredMessage, error) {
	var out []StoredMessage
	for _, seg := range segs {
		if bytesMax <= 0 {
			break
		}
		err := seg.messages(from, math.MaxInt, func(m StoredMessage) bool {
			if m.Offset > to || bytesMax <= 0 {
				return false
			}
			m.Partition, m.PartitionID = p.name, p.id
			out = append(out, m)
			bytesMax -= m.bytes()
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
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
}

// Fetched answers one FetchItem.
type Fetched struct {
	Err           error
	Messages      []StoredMessage
	LogStart      int64
	HighWatermark int64
}
