package kafkawire

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

type fakeLog struct {
	start, end int64
	batches    []fakeBatch
	producers  map[int64]*fakeProducer
}

type fakeBatch struct {
	base  int64
	bytes []byte
}

// fakeProducer remembers a producer's last five batches, as Kafka does.
type fakeProducer struct {
	epoch int16
	last  []fakeSequence
}

type fakeSequence struct {
	first, next int32
	base        int64
}

// release completes the appends held back, in the order they stand in held.
func (f *fake) release() {
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	for _, done := range held {
		done()
	}
}

func (f *fake) log(p queen.PartitionRef) (*fakeLog, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	q, err := f.find(p.Queue)
	if err != nil {
		return nil, err
	}
	if p.Number < 0 || int(p.Number) >= len(q.logs) {
		return nil, queen.ErrUnknownPartition
	}
	return q.logs[p.Number], nil
}

func (f *fake) Append(ctx context.Context, items []queen.AppendItem) []*queen.Pending {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.contexts != nil {
		f.contexts = append(f.contexts, ctx)
	}
	ps := make([]*queen.Pending, len(items))
	for i, it := range items {
		res, err := f.append(it)
		if !f.hold {
			ps[i] = queen.CompletedPending(res, err)
			continue
		}
		p, done := queen.NewPending()
		ps[i] = p
		f.held = append(f.held, func() { done(res, err) })
		f.batches = append(f.batches, it.Batch)
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return ps
}

func (f *fake) append(it queen.AppendItem) (queen.Appended, error) {
	if len(it.Batch) == 0 {
		panic("the door let a Produce without records pass")
	}
	l, err := f.log(it.Partition)
	if err != nil {
		return queen.Appended{}, err
	}
	b, err := checkBatch(it.Batch)
	if err != nil {
		return queen.Appended{}, err
	}
	if b.ProducerID >= 0 {
		p := l.producers[b.ProducerID]
		if p == nil || p.epoch < b.ProducerEpoch {
			p = &fakeProducer{epoch: b.ProducerEpoch}
			l.producers[b.ProducerID] = p
		}
		for _, s := range p.last {
			if s.first == b.FirstSequence {
				return queen.Appended{BaseOffset: s.base, LogStart: l.start}, nil
			}
		}
		switch {
		case p.epoch > b.ProducerEpoch:
			return queen.Appended{}, queen.ErrProducerFenced
		case len(p.last) == 0 && b.FirstSequence != 0, len(p.last) > 0 && p.last[len(p.last)-1].next != b.FirstSequence:
			return queen.Appended{}, queen.ErrOutOfOrderSequence
		}
		p.last = append(p.last, fakeSequence{b.FirstSequence, b.FirstSequence + b.NumRecords, l.end})
		p.last = p.last[max(0, len(p.last)-5):]
	}
	kept := slices.Clone(it.Batch)
	binary.BigEndian.PutUint64(kept, uint64(l.end))
	binary.BigEndian.PutUint32(kept[12:], uint32(f.cluster.Epoch))
	base := l.end
	l.batches = append(l.batches, fakeBatch{base: base, bytes: kept})
	l.end += int64(b.NumRecords)
	return queen.Appended{BaseOffset: base, LogStart: l.start, CreatedAt: time.Unix(1_700_000_000, 0)}, nil
}

// checkBatch is what the room does with a batch, as far as these tests go.
func checkBatch(b []byte) (*kmsg.RecordBatch, error) {
	if len(b) < 61 || b[16] != 2 {
		return nil, fmt.Errorf("%w: no batch of magic 2", queen.ErrInvalidRecord)
	}
	if n := int(binary.BigEndian.Uint32(b[8:])) + 12; n != len(b) {
		return nil, fmt.Errorf("%w: not exactly one batch", queen.ErrInvalidRecord)
	}
	if crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b[17:]) {
		return nil, queen.ErrCorruptBatch
	}
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(b); err != nil || rb.NumRecords < 1 || rb.LastOffsetDelta != rb.NumRecords-1 {
		return nil, fmt.Errorf("%w: bad counts", queen.ErrInvalidRecord)
	}
	if rb.Attributes&0x30 != 0 {
		return nil, fmt.Errorf("%w: attributes", queen.ErrInvalidRecord)
	}
	return &rb, nil
}

func (f *fake) Read(ctx context.Context, r queen.ReadRequest) ([]queen.ReadAnswer, error) {
	deadline := time.NewTimer(r.MaxWait)
	defer deadline.Stop()
	f.mu.Lock()
	f.reads++
	f.mu.Unlock()
	for {
		f.mu.Lock()
		fail, changed := f.fail, f.changed
		as, bytes, ready := f.read(r)
		f.mu.Unlock()
		if fail != nil {
			return nil, fail
		}
		if ready || bytes >= r.MinBytes || r.MaxWait == 0 {
			return as, nil
		}
		select {
		case <-changed:
		case <-deadline.C:
			r.MaxWait = 0
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (f *fake) read(r queen.ReadRequest) (as []queen.ReadAnswer, bytes int, ready bool) {
	as = make([]queen.ReadAnswer, len(r.Items))
	for i, it := range r.Items {
		a := &as[i]
		a.LogStart, a.HighWatermark, a.LastStable = -1, -1, -1
		l, err := f.log(it.Partition)
		if err == nil {
			a.LogStart, a.HighWatermark, a.LastStable = l.start, l.end, l.end
			err = f.checkEpoch(it.CurrentEpoch)
		}
		if err == nil && (it.Offset < l.start || it.Offset > l.end) {
			err = queen.ErrOffsetOutOfRange
		}
		if err != nil {
			a.Err, ready = err, true
			continue
		}
		if it.LastFetchedEpoch > f.cluster.Epoch {
			a.Diverging, ready = &queen.EpochEnd{Epoch: f.cluster.Epoch, EndOffset: l.end}, true
			continue
		}
		size := 0
		for k, b := range l.batches {
			if k+1 < len(l.batches) && l.batches[k+1].base <= it.Offset || it.Offset >= l.end {
				continue
			}
			if n := len(b.bytes); (size+n > it.MaxBytes || bytes+n > r.MaxBytes) && bytes > 0 {
				break
			}
			a.Batches = append(a.Batches, b.bytes)
			size += len(b.bytes)
			bytes += len(b.bytes)
		}
	}
	return as, bytes, ready
}

func (f *fake) checkEpoch(e int32) error {
	switch {
	case e < 0 || e == f.cluster.Epoch:
		return nil
	case e < f.cluster.Epoch:
		return queen.ErrFencedEpoch
	}
	return queen.ErrUnknownEpoch
}

func (f *fake) Offsets(ctx context.Context, qs []queen.OffsetQuery) ([]queen.OffsetAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	as := make([]queen.OffsetAnswer, len(qs))
	for i, q := range qs {
		l, err := f.log(q.Partition)
		if err == nil {
			err = f.checkEpoch(q.CurrentEpoch)
		}
		as[i] = queen.OffsetAnswer{Offset: -1, Timestamp: -1, Epoch: -1, Err: err}
		if err == nil {
			as[i].Offset, as[i].Timestamp = l.offsetAt(q.Timestamp)
			if as[i].Offset >= 0 {
				as[i].Epoch = f.cluster.Epoch
			}
		}
	}
	return as, nil
}

// offsetAt knows uncompressed batches only.
func (l *fakeLog) offsetAt(t int64) (offset, timestamp int64) {
	switch t {
	case queen.AtEnd:
		return l.end, -1
	case queen.AtStart:
		return l.start, -1
	}
	offset, timestamp = -1, -1
	for _, b := range l.batches {
		var rb kmsg.RecordBatch
		_ = rb.ReadFrom(b.bytes)
		records := make([]kmsg.Record, rb.NumRecords)
		rest := rb.Records
		for i := range records {
			size, n := binary.Varint(rest)
			_ = records[i].ReadFrom(rest[:n+int(size)])
			rest = rest[n+int(size):]
			at := rb.FirstTimestamp + records[i].TimestampDelta64
			if t == queen.AtMaxTimestamp && at > timestamp {
				offset, timestamp = b.base+int64(i), at
			}
			if t >= 0 && at >= t {
				return b.base + int64(i), at
			}
		}
	}
	return offset, timestamp
}

func (f *fake) EpochEnds(ctx context.Context, qs []queen.EpochQuery) ([]queen.EpochAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	as := make([]queen.EpochAnswer, len(qs))
	for i, q := range qs {
		l, err := f.log(q.Partition)
		if err == nil {
			err = f.checkEpoch(q.CurrentEpoch)
		}
		as[i] = queen.EpochAnswer{Err: err, End: queen.EpochEnd{Epoch: -1, EndOffset: -1}}
		if err == nil && q.Epoch == f.cluster.Epoch {
			as[i].End = queen.EpochEnd{Epoch: q.Epoch, EndOffset: l.end}
		}
	}
	return as, nil
}

func (f *fake) NewProducer(ctx context.Context) (queen.ProducerID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return queen.ProducerID{}, f.fail
	}
	f.producers++
	return queen.ProducerID{ID: 4000 + f.producers}, nil
}

func (f *fake) Truncate(ctx context.Context, ts []queen.Truncation) []queen.Truncated {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]queen.Truncated, len(ts))
	for i, t := range ts {
		out[i].LogStart = -1
		l, err := f.log(t.Partition)
		if err != nil {
			out[i].Err = err
			continue
		}
		to := t.Before
		if to == queen.ToLogEnd {
			to = l.end
		}
		if to < 0 || to > l.end {
			out[i].Err = queen.ErrOffsetOutOfRange
			continue
		}
		l.start = max(l.start, to)
		out[i].LogStart = l.start
	}
	return out
}

// Sizes counts ten bytes an offset.
func (f *fake) Sizes(_ context.Context, refs []queen.PartitionRef) ([]queen.SizeAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	out := make([]queen.SizeAnswer, len(refs))
	for i, r := range refs {
		l, err := f.log(r)
		if out[i].Err = err; err == nil {
			out[i].Size = 10 * (l.end - l.start)
		}
	}
	return out, nil
}

// Producers tells of one producer wherever something is stored.
func (f *fake) Producers(_ context.Context, ref queen.PartitionRef) ([]queen.ActiveProducer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	l, err := f.log(ref)
	if err != nil || l.end == 0 {
		return nil, err
	}
	return []queen.ActiveProducer{{ProducerID: queen.ProducerID{ID: 7, Epoch: 3}, LastSequence: 11, LastWrite: time.UnixMilli(5)}}, nil
}
