package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"queenmq/queen"
)

// push serves POST /api/v1/push {"items":[…]}: 201 with one outcome per item, in
// request order. An item that is refused does not touch the others. Where no
// item was taken the whole answer is an error, with the outcomes under "items":
// 4xx where each was refused as the client's mistake, 503 where none has a
// definite outcome.
func (s *Server) push(x *exchange) (answer, error) {
	items, err := x.readPush()
	if err != nil {
		return answer{}, err
	}
	outcomes := s.pushAll(x, items)
	b := slices.Grow(x.memory().answer[:0], 16+len(outcomes)*224)
	b = append(b, '[')
	counts := [...]struct {
		status queen.PushStatus
		n      int
	}{{status: queen.Queued}, {status: queen.Duplicate}, {status: queen.Failed}}
	var same sameText
	for i := range outcomes {
		b = appendComma(b, i)
		for k := range counts {
			if counts[k].status == outcomes[i].Status {
				counts[k].n++
			}
		}
		b = same.appendPushed(b, i, &items.msgs[i], &outcomes[i])
	}
	b = append(b, ']')
	x.memory().answer = b
	for _, c := range counts {
		if c.n > 0 {
			s.metrics.items.WithLabelValues(string(c.status)).Add(float64(c.n))
		}
	}
	if p := noneTaken(outcomes); p != nil {
		p.items = b
		return answer{}, p
	}
	return answer{status: http.StatusCreated, body: b}, nil
}

// pushAll hands over what was not refused and puts the outcomes back in order.
func (s *Server) pushAll(x *exchange, items *pushItems) []queen.Pushed {
	ctx, cancel := x.context()
	defer cancel()
	defer func() { x.unread = ctx.Err() == nil }()
	if len(items.refused) == 0 {
		if len(items.msgs) == 0 {
			return nil
		}
		return s.engine.Push(ctx, items.msgs)
	}
	good := make([]queen.Message, 0, len(items.msgs)-len(items.refused))
	outcomes := make([]queen.Pushed, len(items.msgs))
	at := make([]int, 0, cap(good))
	for i := range items.msgs {
		if bad := items.refused[i]; bad != nil {
			outcomes[i] = queen.Pushed{Status: queen.Failed, Offset: -1, Err: bad}
			continue
		}
		good, at = append(good, items.msgs[i]), append(at, i)
	}
	if len(good) > 0 {
		for k, o := range s.engine.Push(ctx, good) {
			outcomes[at[k]] = o
		}
	}
	return outcomes
}

// noneTaken is the answer where no item was stored and none is a duplicate; nil
// where one is, or where refusals and unknown outcomes mix.
func noneTaken(outcomes []queen.Pushed) *problem {
	var first *problem
	status, retry := 0, 0
	for i := range outcomes {
		if outcomes[i].Status != queen.Failed {
			return nil
		}
		p := problemOf(outcomes[i].Err)
		if p.status >= http.StatusInternalServerError {
			retry++
		}
		switch {
		case first == nil:
			first, status = p, p.status
			if status < http.StatusInternalServerError {
				first = &problem{status: status, word: p.word, text: itemText(i, outcomes[i].Err)}
			}
		case status != p.status:
			status = http.StatusBadRequest
		}
	}
	if first == nil || retry > 0 && retry < len(outcomes) {
		return nil
	}
	if retry > 0 && status < http.StatusInternalServerError {
		status = http.StatusServiceUnavailable // several kinds of "not now"
	}
	return &problem{status: status, word: first.word, text: first.text}
}

// sameText is what neighbours mostly have in common, as it was written last.
type sameText struct {
	queue, partition string
	status           queen.PushStatus
	text             []byte
}

func (t *sameText) of(queue, partition string, status queen.PushStatus) []byte {
	if t.text != nil && t.queue == queue && t.partition == partition && t.status == status {
		return t.text
	}
	b := append(t.text[:0], `,"queueName":`...)
	b = appendString(b, queue)
	if partition != "" {
		b = append(b, `,"partition":`...)
		b = appendString(b, partition)
	}
	b = append(b, `,"status":`...)
	b = appendString(b, string(status))
	b = append(b, `,"offset":`...)
	*t = sameText{queue, partition, status, b}
	return b
}

func (t *sameText) appendPushed(b []byte, index int, m *queen.Message, o *queen.Pushed) []byte {
	b = append(b, `{"index":`...)
	b = appendInt(b, int64(index))
	failed := o.Status == queen.Failed
	id := o.TransactionID
	b = append(b, `,"message_id":`...)
	if failed {
		id = m.ID
		b = append(b, "null"...)
	} else {
		b = appendUUID(b, o.MessageID)
	}
	b = append(b, ',')
	b = appendBytes(b, "transaction_id", "_base64", id)
	b = append(b, t.of(m.Queue, o.Partition, o.Status)...)
	if failed {
		b = append(b, "null"...)
	} else {
		b = appendInt(b, o.Offset)
	}
	if failed {
		b = append(b, `,"error":`...)
		b = appendString(b, itemText(index, o.Err))
		b = append(b, `,"code":`...)
		b = appendString(b, problemOf(o.Err).word)
	}
	return append(b, '}')
}

// itemText is what a user reads about one item: which, where in it, and what.
func itemText(index int, err error) string {
	item := "items[" + strconv.Itoa(index) + "]"
	var bad *bodyError
	if errors.As(err, &bad) {
		in := *bad
		return under(item, &in).Error()
	}
	return item + ": " + problemOf(err).text
}
