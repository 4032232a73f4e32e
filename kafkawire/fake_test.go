package kafkawire

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// fake is a small honest engine: a map and a mutex. Time, ids and the cluster
// are fixed, so that replies are the same in every run.
type fake struct {
	cluster queen.Cluster

	mu        sync.Mutex
	groups    coordination
	seen      map[string]time.Time // groups that had members
	changed   chan struct{}        // closed and replaced at every append
	queues    map[string]*fakeQueue
	lastID    int64
	version   int64
	producers int64
	cursors   map[string]map[string]queen.Cursor // group, then queue id and partition number
	fail      error                              // what every call answers while set
	created   int                                // queues ever created
	reads     int                                // calls of Read
	held      []func()                           // appends waiting for release, while hold is set
	hold      bool
	batches   [][]byte          // of the appends held back, as they were handed over
	contexts  []context.Context // of the appends, where a test made it
}

// coordination is who coordinates all groups, and in which epoch.
type coordination struct {
	broker  int32
	epoch   int64
	inDoubt bool
}

type fakeQueue struct {
	queen.Queue
	logs []*fakeLog
}

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

func newFake() *fake {
	return &fake{
		cluster: queen.Cluster{
			ID: "AAAAAAAAAAAAAAAAAAAAAA", Self: 1, Epoch: 7,
			Brokers: []queen.Broker{{ID: 1, Host: "queen.test", Port: 9092}},
		},
		groups:  coordination{broker: 1, epoch: 1},
		seen:    make(map[string]time.Time),
		changed: make(chan struct{}),
		queues:  make(map[string]*fakeQueue),
		cursors: make(map[string]map[string]queen.Cursor),
	}
}

// topic makes a queue for a test.
func (f *fake) topic(name string, partitions int) queen.Queue {
	q, err := f.CreateQueue(context.Background(), queen.NewQueue{Name: name, Partitions: partitions, Options: queen.TopicOptions()})
	if err != nil {
		panic(err)
	}
	return q
}

func (f *fake) setFail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

// release completes the appends held back, in the order given by pick.
func (f *fake) release() {
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	for _, done := range held {
		done()
	}
}

func (f *fake) Cluster() queen.Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cluster
}

func (f *fake) Coordinator(string) queen.Coordination {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := queen.Coordination{Fence: queen.Fence{Slot: 9, Epoch: f.groups.epoch}, InDoubt: f.groups.inDoubt}
	if c.InDoubt {
		return c
	}
	c.Mine = f.groups.broker == f.cluster.Self
	for _, b := range f.cluster.Brokers {
		if b.ID == f.groups.broker {
			c.Broker, c.Known = b, true
		}
	}
	return c
}

// setCoordinator has another broker take all groups over; 0 is nobody.
func (f *fake) setCoordinator(broker int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups.broker = broker
	f.groups.epoch++
}

// doubt says whether the database has not heard of this broker for too long.
func (f *fake) doubt(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups.inDoubt = yes
}

// fenced says whether the fence is not the coordinator's any more; mu is held.
func (f *fake) fenced(under queen.Fence) bool {
	return under != queen.Fence{Slot: 9, Epoch: f.groups.epoch}
}

// setBrokers changes who lives.
func (f *fake) setBrokers(bs ...queen.Broker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cluster.Brokers = bs
}

func (f *fake) Queues(ctx context.Context, refs []queen.QueueRef) ([]queen.QueueAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	as := make([]queen.QueueAnswer, len(refs))
	for i, r := range refs {
		q, err := f.find(r)
		as[i].Err = err
		if err == nil {
			as[i].Queue = q.Queue
		}
	}
	return as, nil
}

func (f *fake) find(r queen.QueueRef) (*fakeQueue, error) {
	if r.Name != "" {
		if q := f.queues[r.Name]; q != nil {
			return q, nil
		}
		return nil, fmt.Errorf("%w: %q", queen.ErrUnknownQueue, r.Name)
	}
	for _, q := range f.queues {
		if q.TopicID == r.TopicID {
			return q, nil
		}
	}
	return nil, queen.ErrUnknownQueueID
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

func (f *fake) CatalogVersion() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version
}

func (f *fake) AllQueues(ctx context.Context) ([]queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	var all []queen.Queue
	for _, q := range f.queues {
		all = append(all, q.Queue)
	}
	slices.SortFunc(all, func(a, b queen.Queue) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (f *fake) CreateQueue(ctx context.Context, n queen.NewQueue) (queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return queen.Queue{}, f.fail
	}
	if f.queues[n.Name] != nil {
		return queen.Queue{}, fmt.Errorf("%w: %q", queen.ErrQueueExists, n.Name)
	}
	q := &fakeQueue{Queue: queen.Queue{Name: n.Name, Partitions: n.Partitions, Fixed: true, Options: n.Options}}
	if err := n.Options.Validate(); err != nil || n.Validate {
		return q.Queue, err
	}
	f.created++
	f.lastID++
	q.ID = f.lastID
	q.TopicID = uuid.UUID{0: 0x11, 15: byte(f.lastID)}
	for range n.Partitions {
		q.logs = append(q.logs, &fakeLog{producers: make(map[int64]*fakeProducer)})
	}
	f.queues[n.Name] = q
	f.version++
	return q.Queue, nil
}

func (f *fake) Configure(ctx context.Context, name string, p queen.OptionsPatch) (queen.Configured, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return queen.Configured{}, f.fail
	}
	q, err := f.find(queen.QueueRef{Name: name})
	if err != nil {
		return queen.Configured{}, err
	}
	if !p.Existing || !p.Merge {
		panic("the door would create or reset a queue")
	}
	c := queen.Configured{Queue: q.Queue, Before: q.Options}
	c.Queue.Options = p.Apply(q.Options, queen.DefaultOptions())
	if err := c.Queue.Options.Validate(); err != nil {
		return queen.Configured{}, err
	}
	if !p.Validate {
		q.Queue = c.Queue
	}
	return c, nil
}

func (f *fake) DeleteQueue(ctx context.Context, ref queen.QueueRef) (queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return queen.Queue{}, f.fail
	}
	q, err := f.find(ref)
	if err != nil {
		return queen.Queue{}, err
	}
	delete(f.queues, q.Name)
	f.version++
	return q.Queue, nil
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

func (f *fake) CommitOffsets(ctx context.Context, group string, under queen.Fence, cs []queen.Cursor) ([]queen.Cursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	if f.fenced(under) {
		return nil, queen.ErrNotCoordinator
	}
	if f.cursors[group] == nil {
		f.cursors[group] = make(map[string]queen.Cursor)
	}
	as := slices.Clone(cs)
	for i := range as {
		c := &as[i]
		q, err := f.find(c.Partition.Queue)
		switch {
		case err != nil:
			c.Err = err
		case c.Partition.Number < 0 || int(c.Partition.Number) >= len(q.logs):
			c.Err = queen.ErrUnknownPartition
		case len(c.Metadata) > 4096:
			c.Err = queen.ErrMetadataTooLarge
		default:
			c.Partition.Queue = queen.QueueRef{Name: q.Name, TopicID: q.TopicID}
			c.CommittedAt = time.Now()
			f.cursors[group][fmt.Sprint(q.ID, "/", c.Partition.Number)] = *c
		}
	}
	return as, nil
}

func (f *fake) FetchOffsets(ctx context.Context, group string, refs []queen.PartitionRef) ([]queen.Cursor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	var as []queen.Cursor
	if refs == nil {
		for _, c := range f.cursors[group] {
			as = append(as, c)
		}
		slices.SortFunc(as, func(a, b queen.Cursor) int {
			if d := strings.Compare(a.Partition.Queue.Name, b.Partition.Queue.Name); d != 0 {
				return d
			}
			return int(a.Partition.Number - b.Partition.Number)
		})
		return as, nil
	}
	for _, r := range refs {
		c := queen.Cursor{Partition: r, Offset: -1, Epoch: -1}
		q, err := f.find(r.Queue)
		switch {
		case err != nil:
			c.Err = err
		case r.Number < 0 || int(r.Number) >= len(q.logs):
			c.Err = queen.ErrUnknownPartition
		default:
			if stored, ok := f.cursors[group][fmt.Sprint(q.ID, "/", r.Number)]; ok {
				c = stored
			}
			c.Partition.Queue = queen.QueueRef{Name: q.Name, TopicID: q.TopicID}
		}
		as = append(as, c)
	}
	return as, nil
}

func (f *fake) AddPartitions(ctx context.Context, name string, count int, validate bool) (queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return queen.Queue{}, f.fail
	}
	q, err := f.find(queen.QueueRef{Name: name})
	if err != nil {
		return queen.Queue{}, err
	}
	if count <= q.Partitions {
		return queen.Queue{}, queen.ErrInvalidPartitions
	}
	f.version++
	for !validate && q.Partitions < count {
		q.Partitions++
		q.logs = append(q.logs, &fakeLog{producers: make(map[int64]*fakeProducer)})
	}
	return q.Queue, nil
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

func (f *fake) Groups(ctx context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name, cs := range f.cursors {
		if len(cs) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, f.fail
}

func (f *fake) DeleteGroup(ctx context.Context, group string, under queen.Fence) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	if f.fenced(under) {
		return queen.ErrNotCoordinator
	}
	if len(f.cursors[group]) == 0 {
		return queen.ErrUnknownGroup
	}
	delete(f.cursors, group)
	return nil
}

func (f *fake) OldOffsets(ctx context.Context, age time.Duration, each func(string) error) error {
	names, err := f.Groups(ctx)
	for _, name := range names {
		err = cmp.Or(err, each(name))
	}
	return err
}

func (f *fake) GroupsSeen(ctx context.Context, groups []string, forget time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range groups {
		f.seen[name] = time.Now()
	}
	return f.fail
}

func (f *fake) ExpireOffsets(ctx context.Context, group string, under queen.Fence, x queen.Expiry) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fenced(under) {
		return 0, queen.ErrNotCoordinator
	}
	if seen, ok := f.seen[group]; ok && !x.Live && time.Since(seen) < x.Seen {
		return 0, f.fail
	}
	n := 0
	for key, c := range f.cursors[group] {
		if time.Since(c.CommittedAt) >= x.Age && !(x.Live && slices.Contains(x.Topics, c.Partition.Queue.Name)) {
			delete(f.cursors[group], key)
			n++
		}
	}
	return n, f.fail
}

func (f *fake) DeleteOffsets(ctx context.Context, group string, under queen.Fence, refs []queen.PartitionRef) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fenced(under) {
		return nil, queen.ErrNotCoordinator
	}
	out := make([]error, len(refs))
	for i, r := range refs {
		if _, out[i] = f.log(r); out[i] == nil {
			q, _ := f.find(r.Queue)
			delete(f.cursors[group], fmt.Sprint(q.ID, "/", r.Number))
		}
	}
	return out, f.fail
}
