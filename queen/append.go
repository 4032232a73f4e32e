package queen

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"
)

// AppendItem is one Kafka record batch for one partition.
type AppendItem struct {
	Partition PartitionRef
	// Batch is exactly one record batch of magic 2, as received. Append checks
	// it (length, CRC, count, every record under a decompression cap) and reads it
	// until the Pending is done: until then it must not be changed.
	Batch []byte
}

// Appended is what became of an AppendItem.
type Appended struct {
	// BaseOffset is the offset of the batch's first record; for an idempotent
	// resend, that of the original.
	BaseOffset int64
	// LogStart is the partition's log start offset.
	LogStart int64
	// CreatedAt is the stored creation time, by the database's clock; zero for a resend.
	CreatedAt time.Time
	// LogAppendTime is what the records were stamped with; zero where their own
	// timestamps count, and for a resend.
	LogAppendTime time.Time
}

// Pending is an append under way. It is completed exactly once.
type Pending struct {
	done chan struct{}
	res  Appended
	err  error
}

// Done is closed when the append has an outcome.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Result waits for the outcome, or for ctx. The error is one of Errors.
func (p *Pending) Result(ctx context.Context) (Appended, error) {
	select {
	case <-p.done:
		return p.res, p.err
	case <-ctx.Done():
		select {
		case <-p.done:
			return p.res, p.err
		default:
			return Appended{}, context.Cause(ctx)
		}
	}
}

// NewPending is a Pending without an outcome, and the function that gives it
// one. It is to be called exactly once.
func NewPending() (*Pending, func(Appended, error)) {
	p := &Pending{done: make(chan struct{})}
	return p, func(res Appended, err error) {
		p.res, p.err = res, err
		close(p.done)
	}
}

// CompletedPending is a Pending that already has its outcome.
func CompletedPending(res Appended, err error) *Pending {
	p := &Pending{done: make(chan struct{}), res: res, err: err}
	close(p.done)
	return p
}

// Append starts the appends in order and returns one Pending per item. It
// waits only while the bound on bytes in flight is reached, then until ctx.
func (e *Engine) Append(ctx context.Context, items []AppendItem) []*Pending {
	out := make([]*Pending, len(items))
	look := e.catalog.lookups(len(items), func(i int) QueueRef { return items[i].Partition.Queue })
	for i, it := range items {
		out[i] = e.appendOne(ctx, look, it)
	}
	return out
}

func (e *Engine) appendOne(ctx context.Context, look *lookups, it AppendItem) *Pending {
	refuse := func(err error) *Pending {
		if info, unread := lookBatch(it.Batch); unread == nil {
			e.writer.stumbles.failed(stumbler{ref: it.Partition.Queue, number: it.Partition.Number}, &info, err, time.Now())
		}
		return CompletedPending(Appended{BaseOffset: -1, LogStart: -1}, err)
	}
	p, err := look.partition(ctx, it.Partition)
	if err != nil {
		return refuse(err)
	}
	o := p.queue.describe().Options
	now := time.Now()
	info, ids, err := e.examine(ctx, it.Batch, &o, now)
	if err != nil {
		return refuse(err)
	}
	held := len(it.Batch)
	if !recompressionOf(&o).keeps(&info) {
		held = max(held, o.MaxMessageBytes) // as large as it may become; a few KB of zeros do
	}
	if err := e.writer.budget.acquire(ctx, held); err != nil {
		return refuse(err)
	}
	batch, err := e.recoded(ctx, it.Batch, &info, &o)
	if err != nil {
		e.writer.budget.release(held)
		return refuse(err)
	}
	e.writer.budget.release(held - len(batch))
	if o.LogAppendTime {
		batch = bytes.Clone(batch) // what was sent stays as it is
		stampBatch(batch, &info, now)
	}
	pending := &Pending{done: make(chan struct{})}
	e.writer.enqueue(p, &entry{
		batch: batch, held: len(batch), info: info, source: o.DedupSource, ids: ids, pending: pending,
		ref: it.Partition.Queue, number: it.Partition.Number,
	})
	return pending
}

// examine checks a batch by a queue's options, and reads the ids of its records where
// they have any.
func (e *Engine) examine(ctx context.Context, batch []byte, o *QueueOptions, now time.Time) (info batchInfo, ids *recordIDs, err error) {
	if isCompressed(batch) {
		if err := e.unpacking.take(ctx); err != nil {
			return info, nil, err
		}
		defer e.unpacking.give()
	}
	if info, err = checkBatch(batch, e.batchLimits(o)); err != nil {
		return info, nil, err
	}
	if err = recordRulesOf(o, now).check(batch, info, e.cfg.DecompressedBytesMax); err != nil {
		return info, nil, err
	}
	if o.DedupSource != DedupSourceNone {
		ids, err = readRecordIDs(batch, info, o.DedupSource, e.cfg.DecompressedBytesMax)
	}
	return info, ids, err
}

// recoded is a batch as the queue stores it: as sent, or, where the queue has a
// codec of its own, the same records in that codec. The size limit holds for both.
func (e *Engine) recoded(ctx context.Context, sent []byte, info *batchInfo, o *QueueOptions) ([]byte, error) {
	to := recompressionOf(o)
	if to.keeps(info) {
		return sent, nil
	}
	if err := e.unpacking.take(ctx); err != nil {
		return nil, err
	}
	defer e.unpacking.give()
	batch, now, err := to.apply(sent, *info, e.cfg.DecompressedBytesMax)
	if err != nil {
		return nil, err
	}
	if len(batch) > o.MaxMessageBytes {
		return nil, fmt.Errorf("record batch of %d bytes in codec %s, %d are allowed: %w", len(batch), o.Compression, o.MaxMessageBytes, ErrTooLarge)
	}
	info.Codec = now.Codec
	return batch, nil
}

// DecompressedBytesMax is the default of Config.DecompressedBytesMax, and the most
// that a queue can be set to by max.decompressed.message.bytes.
const DecompressedBytesMax = 64 << 20

func (e *Engine) batchLimits(o *QueueOptions) batchLimits {
	l := batchLimits{BatchBytesMax: o.MaxMessageBytes, DecompressedBytesMax: e.cfg.DecompressedBytesMax}
	if text, ok := o.Configs["max.decompressed.message.bytes"]; ok {
		if n, err := strconv.Atoi(text); err == nil {
			l.DecompressedBytesMax = min(l.DecompressedBytesMax, n)
		}
	}
	return l
}
