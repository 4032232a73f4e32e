package httpapi

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"queenmq/queen"
)

// The bounds of a page.
const (
	browseMax = 1000 // messages
	// browseReads bounds how often a page asks: of a selection that is thin, or full of
	// holes, or whose partitions are empty, it shows what it found and says where to go on.
	browseReads      = 64
	browsePartitions = 1000 // looked at with one of them
)

// browseParams are the parameters of a browse.
type browseParams struct {
	queue, partition, group string
	status                  string // "": any
	limit                   int
	skip                    int64 // messages of the selection to pass by
	fromPartition           int   // by number; −1: the first
	fromOffset              int64 // of that partition, or the one named; −1: from the log start
	from                    time.Time
}

// browse serves GET /api/v1/messages?queue=&partition=&consumerGroup=&status=&from=
// &fromPartition=&fromOffset=&offset=&limit=: what is stored, by partition and offset,
// without a lease. A message's status is what consumerGroup (the group-less mode, where
// none is named) has made of it: completed, processing under a live lease, or pending. A
// page may be short of limit; next has the parameters that take the place of this
// page's to go on.
func (s *Server) browse(x *exchange) (answer, error) {
	p := browseParams{limit: 50, fromPartition: -1, fromOffset: -1}
	if err := eachParam(x.req.URL.RawQuery, p.set); err != nil {
		return answer{}, err
	}
	switch {
	case p.queue == "":
		return answer{}, badRequest("invalid_request", "queue is missing")
	case p.fromOffset >= 0 && p.partition == "" && p.fromPartition < 0:
		return answer{}, badRequest("invalid_request", "fromOffset: needs the partition whose offset it is: partition, or fromPartition")
	}
	b := browsing{s: s, x: x, p: &p, skip: p.skip, bytes: s.cfg.FetchBytesMax, body: []byte(`{"messages":[`)}
	for at := max(p.fromPartition, 0); ; {
		page, err := b.positions(at)
		if err == nil {
			err = b.partitions(page.Partitions)
		}
		if err != nil {
			return answer{}, err
		}
		if at = page.Next; page.More && b.next == nil && b.full() {
			b.goOn(at, 0)
		}
		if !page.More || b.next != nil {
			return b.answer(), nil
		}
	}
}

func (p *browseParams) set(name, v string) (err error) {
	var n int
	switch name {
	case "queue":
		p.queue = v
	case "partition":
		p.partition = v
	case "consumerGroup":
		p.group = groupOf(v)
	case "status":
		if p.status = v; v != statusCompleted && v != statusProcessing && v != statusPending {
			err = refuse("", "must be %s, %s or %s", statusPending, statusProcessing, statusCompleted)
		}
	case "limit":
		p.limit, err = number(v, 1, browseMax)
	case "offset":
		n, err = number(v, 0, math.MaxInt)
		p.skip = int64(n)
	case "fromPartition":
		p.fromPartition, err = number(v, 0, math.MaxInt32)
	case "fromOffset":
		n, err = number(v, 0, math.MaxInt)
		p.fromOffset = int64(n)
	case "from":
		p.from, err = timeOf(v)
	default:
		err = noSuchParam()
	}
	return err
}

// The statuses of a stored message for a group.
const (
	statusPending    = "pending"
	statusProcessing = "processing"
	statusCompleted  = "completed"
)

// browseSpan is what of a partition is asked for.
type browseSpan struct {
	lag      *queen.PartitionLag
	from, to int64 // to is not included
}

// span narrows a partition to where messages of the status can be.
func (p *browseParams) span(l *queen.PartitionLag) browseSpan {
	sp := browseSpan{lag: l, from: l.LogStart, to: l.LogEnd}
	if p.partition != "" || l.Number == p.fromPartition {
		sp.from = max(sp.from, p.fromOffset)
	}
	switch p.status {
	case statusPending, statusProcessing:
		sp.from = max(sp.from, l.Position)
		if p.status == statusProcessing {
			sp.to = min(sp.to, l.LeaseEnd+1)
		}
	case statusCompleted:
		sp.to = l.Position
		if n := len(l.Ahead); n > 0 {
			sp.to = l.Ahead[n-1] + 1
		}
	}
	return sp
}

// statusOf is what the group has made of an offset.
func (sp *browseSpan) statusOf(offset int64) string {
	l := sp.lag
	if offset < l.Position {
		return statusCompleted
	}
	if _, done := slices.BinarySearch(l.Ahead, offset); done {
		return statusCompleted
	}
	if offset <= l.LeaseEnd {
		return statusProcessing
	}
	return statusPending
}

// browsing is a page on its way.
type browsing struct {
	s     *Server
	x     *exchange
	p     *browseParams
	body  []byte
	shown int   // messages
	reads int   // of browseReads
	bytes int   // of messages, still to be shown
	skip  int64 // messages still to be passed by
	next  []byte
}

// full says that nothing more goes into the page.
func (b *browsing) full() bool { return b.shown == b.p.limit || b.reads >= browseReads || b.bytes <= 0 }

// goOn ends the page; the next one begins at an offset of a partition.
func (b *browsing) goOn(number int, offset int64) {
	b.next = append(b.next, `{"fromPartition":`...)
	b.next = appendInt(b.next, int64(number))
	b.next = append(b.next, `,"fromOffset":`...)
	b.next = appendInt(b.next, offset)
	b.next = append(b.next, `,"offset":`...)
	b.next = append(appendInt(b.next, b.skip), '}')
}

func (b *browsing) answer() answer {
	b.body = append(b.body, `],"next":`...)
	if b.next == nil {
		b.next = []byte("null")
	}
	return ok(append(append(b.body, b.next...), '}'))
}

// positions reads where the group stands in the partitions from a number on.
func (b *browsing) positions(from int) (*queen.PositionsPage, error) {
	ctx, cancel := b.x.context()
	defer cancel()
	b.reads++
	return b.s.engine.GroupPositions(ctx, queen.PositionsQuery{
		Group: b.p.group, Queue: b.p.queue, Partition: b.p.partition, From: from, Limit: browsePartitions,
	})
}

// partitions shows the messages of some partitions, until the page is full.
func (b *browsing) partitions(lags []queen.PartitionLag) error {
	for i := range lags {
		sp := b.p.span(&lags[i])
		if sp.from < sp.to && !b.full() && !b.p.from.IsZero() {
			if err := b.since(&sp); err != nil {
				return err
			}
		}
		for at := sp.from; at < sp.to; {
			if b.full() {
				b.goOn(sp.lag.Number, at)
				return nil
			}
			var err error
			if at, err = b.messages(&sp, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// since narrows a span to what the time asked for leaves of it.
func (b *browsing) since(sp *browseSpan) error {
	ctx, cancel := b.x.context()
	defer cancel()
	b.reads++
	at, err := b.s.engine.Offsets(ctx, []queen.OffsetQuery{{
		Partition: queen.PartitionRef{Queue: queen.QueueRef{Name: b.p.queue}, Number: int32(sp.lag.Number)},
		Timestamp: max(b.p.from.UnixMilli(), 0), CurrentEpoch: -1,
	}})
	switch {
	case err != nil:
		return err
	case at[0].Err != nil:
		return at[0].Err
	case at[0].Offset < 0: // nothing is that new
		sp.from = sp.to
	default:
		sp.from = max(sp.from, at[0].Offset)
	}
	return nil
}

// messages shows what is read of a span from an offset on, and says where that ends.
func (b *browsing) messages(sp *browseSpan, at int64) (int64, error) {
	// Where every offset of the span counts, those to pass by need not be read.
	if b.p.status == "" && b.skip > 0 {
		jump := min(b.skip, sp.to-at)
		b.skip -= jump
		return at + jump, nil
	}
	got, err := b.read(sp, at)
	switch {
	case errors.Is(got.Err, queen.ErrOffsetOutOfRange) && got.LogStart > at:
		return got.LogStart, nil // removed since it was counted
	case err != nil || got.Err != nil:
		return at, cmp.Or(err, got.Err)
	case len(got.Messages) == 0:
		return sp.to, nil // holes to the end
	}
	for k := range got.Messages {
		m := &got.Messages[k]
		if m.Offset >= sp.to {
			return sp.to, nil
		}
		if b.shown == b.p.limit {
			return m.Offset, nil
		}
		at = m.Offset + 1
		b.bytes -= len(m.Value) + 256
		status := sp.statusOf(m.Offset)
		if b.p.status != "" && status != b.p.status {
			continue
		}
		if b.skip > 0 {
			b.skip--
			continue
		}
		b.body = appendComma(b.body, b.shown)
		b.body = b.s.appendBrowsed(b.body, b.p, sp, m, status)
		b.shown++
	}
	return at, nil
}

func (b *browsing) read(sp *browseSpan, at int64) (queen.Fetched, error) {
	ctx, cancel := b.x.context()
	defer cancel()
	b.reads++
	bytes := max(min(b.bytes, b.s.cfg.FetchEntryDefault), 1)
	got, err := b.s.engine.Fetch(ctx, queen.FetchRequest{
		Items:    []queen.FetchItem{{Queue: b.p.queue, Partition: sp.lag.Partition, Offset: at, MaxBytes: bytes}},
		MaxBytes: bytes, Room: &b.x.room,
	})
	if err != nil {
		return queen.Fetched{}, err
	}
	return got[0], nil
}

func (s *Server) appendBrowsed(b []byte, p *browseParams, sp *browseSpan, m *queen.StoredMessage, status string) []byte {
	b = s.beginMessage(b, p.queue, m)
	b = append(b, `,"partition":`...)
	b = appendString(b, sp.lag.Partition)
	b = append(b, `,"partitionId":`...)
	b = appendPartitionID(b, sp.lag.PartitionID)
	b = append(b, `,"status":`...)
	b = appendString(b, status)
	b = append(b, ',')
	b = appendBytes(b, "key", "Base64", m.Key)
	b = append(b, ',')
	b = appendHeaders(b, m.Headers)
	return append(b, '}')
}
