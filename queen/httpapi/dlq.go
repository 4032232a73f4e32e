package httpapi

import (
	"context"
	"math"
	"net/http"
	"strconv"

	"queenmq/queen"
)

// dlqPage is how many dead letters a page or a replay has where the request does
// not say.
const dlqPage = 100

// dlqParams are the parameters of requests about dead letters.
type dlqParams struct {
	q       queen.DeadQuery
	paged   bool // limit and offset are known
	queried bool // queue was named
}

func (p *dlqParams) set(name, v string) (err error) {
	var n int
	switch {
	case name == "queue":
		p.q.Queue, p.queried = v, true
	case name == "partition":
		p.q.Partition = v
	case name == "consumerGroup":
		p.q.Group = ptr(groupOf(v))
	case name == "from":
		p.q.From, err = timeOf(v)
	case name == "to":
		p.q.To, err = timeOf(v)
	case name == "limit" && p.paged:
		p.q.Limit, err = number(v, 1, queen.DeadLettersMax)
	case name == "offset" && p.paged:
		n, err = number(v, 0, math.MaxInt)
		p.q.Skip = n
	case name == "id" && !p.paged:
		n, err = number(v, 1, math.MaxInt)
		p.q.IDs = []int64{int64(n)}
	default:
		err = noSuchParam()
	}
	return err
}

func (p *dlqParams) read(x *exchange) error {
	if err := eachParam(x.req.URL.RawQuery, p.set); err != nil {
		return err
	}
	if !p.queried {
		return badRequest("invalid_request", "queue is missing")
	}
	return nil
}

// listDLQ serves GET /api/v1/dlq?queue=&partition=&consumerGroup=&from=&to=&limit=&offset=:
// a queue's dead letters, oldest first, and how many there are in all.
func (s *Server) listDLQ(x *exchange) (answer, error) {
	p := dlqParams{paged: true, q: queen.DeadQuery{Limit: dlqPage}}
	if err := p.read(x); err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	letters, total, err := s.engine.DeadLetters(ctx, p.q)
	if err != nil {
		return answer{}, err
	}
	b := []byte(`{"messages":[`)
	for i := range letters {
		b = appendComma(b, i)
		b = s.appendLetter(b, &letters[i])
	}
	b = append(b, `],"total":`...)
	b = appendInt(b, int64(total))
	return ok(append(b, '}')), nil
}

// purgeDLQ serves DELETE /api/v1/dlq?queue=&partition=&consumerGroup=&from=&to=&id=:
// all dead letters chosen are forgotten.
func (s *Server) purgeDLQ(x *exchange) (answer, error) {
	var p dlqParams
	if err := p.read(x); err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	n, err := s.engine.PurgeDeadLetters(ctx, p.q)
	if err != nil {
		return answer{}, err
	}
	return ok(append(appendInt([]byte(`{"success":true,"deleted":`), int64(n)), '}')), nil
}

// replayDLQ serves POST /api/v1/dlq/replay {"queue", "partition"?, "consumerGroup"?,
// "ids"?, "limit"?}: the dead letters chosen, oldest first, are pushed again at the
// end of their partitions, under ids of their own, and forgotten. Sent again, it
// goes on with what is left.
func (s *Server) replayDLQ(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	q := queen.DeadQuery{Limit: dlqPage}
	seen := map[string]bool{}
	err = r.object(func(name []byte) (err error) {
		if seen[string(name)] {
			return repeated()
		}
		seen[string(name)] = true
		switch string(name) {
		case "queue":
			var v []byte
			v, err = r.str()
			q.Queue = string(v)
		case "partition":
			q.Partition, err = r.optional()
		case "consumerGroup":
			var v string
			if v, err = r.optional(); v != "" {
				q.Group = ptr(groupOf(v))
			}
		case "limit":
			var n int64
			n, err = r.integer(1, queen.DeadLettersMax)
			q.Limit = int(n)
		case "ids":
			q.IDs = []int64{}
			err = r.array(func(i int) error {
				if i == queen.DeadLettersMax {
					return refuse("", "more than %d ids", i)
				}
				v, err := r.str()
				if err != nil {
					return err
				}
				id, bad := strconv.ParseInt(string(v), 10, 64)
				if bad != nil {
					return refuse("", "is not the id of a dead letter")
				}
				q.IDs = append(q.IDs, id)
				return nil
			})
		default:
			err = unknownName(r)
		}
		return err
	})
	if err == nil {
		err = r.end()
	}
	if err == nil && !seen["queue"] {
		err = badRequest("invalid_request", "queue is missing")
	}
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	return s.replay(ctx, q)
}

func (s *Server) replay(ctx context.Context, q queen.DeadQuery) (answer, error) {
	got, err := s.engine.ReplayDeadLetters(ctx, q)
	if err != nil {
		return answer{}, err
	}
	n := 0
	items := []byte{}
	for i := range got {
		g := &got[i]
		items = appendComma(items, i)
		items = append(items, `{"deadLetterId":`...)
		items = appendPartitionID(items, g.Letter.ID)
		items = append(items, `,"success":`...)
		items = appendBool(items, g.Err == nil)
		if g.Err == nil {
			n++
			items = append(items, ',')
			items = appendBytes(items, "transaction_id", "_base64", g.Pushed.TransactionID)
			items = append(items, `,"partition":`...)
			items = appendString(items, g.Pushed.Partition)
			if g.Pushed.Offset >= 0 { // else an earlier attempt replayed it
				items = append(items, `,"message_id":`...)
				items = appendUUID(items, g.Pushed.MessageID)
				items = append(items, `,"offset":`...)
				items = appendInt(items, g.Pushed.Offset)
			}
		} else {
			p := problemOf(g.Err)
			items = append(items, `,"error":`...)
			items = appendString(items, p.text)
			items = append(items, `,"code":`...)
			items = appendString(items, p.word)
		}
		items = append(items, '}')
	}
	b := append([]byte(`{"success":`), strconv.FormatBool(n == len(got))...)
	b = append(b, `,"replayed":`...)
	b = appendInt(b, int64(n))
	b = append(b, `,"results":[`...)
	return ok(append(append(b, items...), "]}"...)), nil
}

// appendLetter appends a dead letter: the message, and why it is one.
func (s *Server) appendLetter(b []byte, l *queen.DeadLetter) []byte {
	group := l.Group
	if group == "" {
		group = noGroup
	}
	more := append([]byte(`,"deadLetterId":`), '"')
	more = appendInt(more, l.ID)
	more = append(more, `","consumerGroup":`...)
	more = appendString(more, group)
	more = append(more, `,"errorMessage":`...)
	more = appendString(more, l.Reason)
	more = append(more, `,"retryCount":`...)
	more = appendInt(more, int64(l.Failures))
	more = append(more, `,"failedAt":`...)
	more = appendTime(more, l.DiedAt)
	m := &l.Message
	place := append([]byte(nil), `,"partition":`...)
	place = appendString(place, m.Partition)
	place = append(place, `,"partitionId":`...)
	place = append(appendPartitionID(place, m.PartitionID), more...)
	if l.Lost {
		b = append(b, `{"lost":true,"offset":`...)
		b = appendInt(b, m.Offset)
		b = append(b, `,"queue":`...)
		b = append(appendString(b, l.Queue), place...)
		return append(b, '}')
	}
	return s.appendMessage(b, l.Queue, place, m)
}

// message is the message that a path names by its partition's id and its own. An
// id that is not of our making names nothing.
func (x *exchange) message() (partition int64, id []byte) {
	partition, err := strconv.ParseInt(x.names.partition, 10, 64)
	if err != nil {
		partition = -1
	}
	return partition, []byte(x.names.message)
}

// getMessage serves GET /api/v1/messages/{partition}/{message}: a message by its
// partition's id and its transactionId, while its id is known; a dead letter as one.
func (s *Server) getMessage(x *exchange) (answer, error) {
	partition, id := x.message()
	ctx, cancel := x.context()
	defer cancel()
	queue, m, dead, err := s.engine.FindMessage(ctx, partition, id)
	if err != nil {
		return answer{}, err
	}
	if dead != nil {
		return ok(s.appendLetter(nil, dead)), nil
	}
	place := append([]byte(nil), `,"partition":`...)
	place = appendString(place, m.Partition)
	place = append(place, `,"partitionId":`...)
	return ok(s.appendMessage(nil, queue, appendPartitionID(place, m.PartitionID), &m)), nil
}

// letters chooses the dead letters of the message that the path names; inLog says
// that it is none.
func (s *Server) letters(ctx context.Context, x *exchange, inLog string) (queen.DeadQuery, error) {
	partition, id := x.message()
	queue, m, dead, err := s.engine.FindMessage(ctx, partition, id)
	if err != nil {
		return queen.DeadQuery{}, err
	}
	q := queen.DeadQuery{Queue: queue, Partition: m.Partition, TransactionID: id}
	if dead == nil {
		// It is in the log still; of a group that gave up on it, it is a dead letter too.
		_, n, err := s.engine.DeadLetters(ctx, q)
		if err == nil && n == 0 {
			err = &problem{status: http.StatusConflict, word: "not_a_dead_letter", text: inLog}
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

// deleteMessage serves DELETE /api/v1/messages/{partition}/{message}: the message's dead
// letters are forgotten. The log itself is only cut by retention, so one that is no
// dead letter is a 409.
func (s *Server) deleteMessage(x *exchange) (answer, error) {
	ctx, cancel := x.context()
	defer cancel()
	q, err := s.letters(ctx, x, "the message is in the log, which retention alone cuts; only dead letters are deleted singly. To pass it by, ack it")
	if err != nil {
		return answer{}, err
	}
	n, err := s.engine.PurgeDeadLetters(ctx, q)
	if err != nil {
		return answer{}, err
	}
	return ok(append(appendInt([]byte(`{"success":true,"deleted":`), int64(n)), '}')), nil
}

// retryMessage serves POST /api/v1/messages/{partition}/{message}/retry: the message's
// dead letters are replayed. One that is no dead letter is a 409.
func (s *Server) retryMessage(x *exchange) (answer, error) {
	if err := x.noMembers(); err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	q, err := s.letters(ctx, x, "the message is no dead letter; to have it given again, ack it with retry under its lease, or seek its group")
	if err != nil {
		return answer{}, err
	}
	return s.replay(ctx, q)
}
