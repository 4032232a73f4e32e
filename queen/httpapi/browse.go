package httpapi

import (
	"errors"
	"math"
	"slices"
	"time"

	"queenmq/queen"
)

// browseMax is the most messages of a page.
const browseMax = 1000

// browseParams are the parameters of a browse.
type browseParams struct {
	queue, partition, group string
	status                  string // "": any
	limit                   int
	skip                    int64 // messages of the selection to pass by
	fromOffset              int64 // −1: from the log start
	from                    time.Time
}

// browse serves GET /api/v1/messages?queue=&partition=&consumerGroup=&status=&from=
// &fromOffset=&offset=&limit=: what is stored, by partition and offset, without a
// lease. A message's status is what consumerGroup (the group-less mode, where none is
// named) has made of it: completed, processing under a live lease, or pending. A page
// may be short of limit where its messages are large; next says where to go on.
func (s *Server) browse(x *exchange) (answer, error) {
	p := browseParams{limit: 50, fromOffset: -1}
	if err := eachParam(x.req.URL.RawQuery, p.set); err != nil {
		return answer{}, err
	}
	switch {
	case p.queue == "":
		return answer{}, badRequest("invalid_request", "queue is missing")
	case p.fromOffset >= 0 && p.partition == "":
		return answer{}, badRequest("invalid_request", "fromOffset: needs the partition whose offset it is")
	case p.fromOffset >= 0 && !p.from.IsZero():
		return answer{}, badRequest("invalid_request", "from: not beside fromOffset")
	}
	ctx, cancel := x.context()
	defer cancel()
	var parts []queen.PartitionLag
	for page := (&queen.PositionsPage{More: true}); page.More; {
		var err error
		if page, err = s.engine.GroupPositions(ctx, queen.PositionsQuery{
			Group: p.group, Queue: p.queue, Partition: p.partition, FromQueue: page.NextQueue, From: page.Next,
		}); err != nil {
			return answer{}, err
		}
		parts = append(parts, page.Partitions...)
	}
	spans := make([]browseSpan, len(parts))
	for i := range parts {
		spans[i] = p.span(&parts[i])
	}
	if !p.from.IsZero() {
		qs := make([]queen.OffsetQuery, len(parts))
		for i := range parts {
			qs[i] = queen.OffsetQuery{
				Partition: queen.PartitionRef{Queue: queen.QueueRef{Name: p.queue}, Number: int32(parts[i].Number)},
				Timestamp: max(p.from.UnixMilli(), 0), CurrentEpoch: -1,
			}
		}
		at, err := s.engine.Offsets(ctx, qs)
		if err != nil {
			return answer{}, err
		}
		for i := range at {
			switch {
			case at[i].Err != nil:
				return answer{}, at[i].Err
			case at[i].Offset < 0: // nothing is that new
				spans[i].from = spans[i].to
			default:
				spans[i].from = max(spans[i].from, at[i].Offset)
			}
		}
	}
	return s.page(x, &p, spans)
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
	sp := browseSpan{lag: l, from: max(l.LogStart, p.fromOffset), to: l.LogEnd}
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

// browseReads bounds how often a page asks for more: of a selection that is thin, or
// full of holes, it shows what it found and says where to go on.
const browseReads = 16

func (s *Server) page(x *exchange, p *browseParams, spans []browseSpan) (answer, error) {
	b := []byte(`{"messages":[`)
	shown, reads, left := 0, 0, s.cfg.FetchBytesMax
	skip := p.skip
	next := []byte("null")
	goOn := func(sp *browseSpan, offset int64) {
		next = append([]byte(nil), `{"partition":`...)
		next = appendString(next, sp.lag.Partition)
		next = append(next, `,"fromOffset":`...)
		next = append(appendInt(next, offset), '}')
	}
partitions:
	for i := range spans {
		sp := &spans[i]
		for at := sp.from; at < sp.to; {
			if shown == p.limit || reads == browseReads || left <= 0 {
				goOn(sp, at)
				break partitions
			}
			// Where every offset of the span counts, those to pass by need not be read.
			if p.status == "" && skip > 0 {
				jump := min(skip, sp.to-at)
				at, skip = at+jump, skip-jump
				continue
			}
			reads++
			msgs, err := s.browseRead(x, p.queue, sp, at, left)
			if err != nil {
				return answer{}, err
			}
			if len(msgs) == 0 {
				break // holes to the end, or removed since
			}
			for k := range msgs {
				m := &msgs[k]
				if m.Offset >= sp.to || shown == p.limit {
					break
				}
				at = m.Offset + 1
				left -= len(m.Value) + 256
				status := sp.statusOf(m.Offset)
				if p.status != "" && status != p.status {
					continue
				}
				if skip > 0 {
					skip--
					continue
				}
				if shown++; shown > 1 {
					b = append(b, ',')
				}
				b = s.appendBrowsed(b, p, sp, m, status)
			}
			if last := msgs[len(msgs)-1].Offset; last >= sp.to-1 && shown < p.limit {
				break
			}
		}
	}
	b = append(b, `],"next":`...)
	b = append(b, next...)
	return ok(append(b, '}')), nil
}

func (s *Server) browseRead(x *exchange, queue string, sp *browseSpan, at int64, bytes int) ([]queen.StoredMessage, error) {
	ctx, cancel := x.context()
	defer cancel()
	bytes = max(min(bytes, s.cfg.FetchEntryDefault), 1)
	got, err := s.engine.Fetch(ctx, queen.FetchRequest{
		Items:    []queen.FetchItem{{Queue: queue, Partition: sp.lag.Partition, Offset: at, MaxBytes: bytes}},
		MaxBytes: bytes, Room: &x.room,
	})
	if err != nil {
		return nil, err
	}
	if errors.Is(got[0].Err, queen.ErrOffsetOutOfRange) {
		return nil, nil // removed since it was counted
	}
	return got[0].Messages, got[0].Err
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
