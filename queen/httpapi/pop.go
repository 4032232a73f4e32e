package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

// noGroup is the group-less mode's name on the wire; the published clients send
// it back where an answer named it.
const noGroup = "__QUEUE_MODE__"

// appendGroup appends a group's name on the wire.
func appendGroup(b []byte, group string) []byte {
	if group == "" {
		group = noGroup
	}
	return appendString(b, group)
}

// groupOf is the engine's word for a group named on the wire.
func groupOf(name string) string {
	if name == noGroup {
		return ""
	}
	return name
}

// partitionsAuto is how many partitions a pop takes from at most where the client
// leaves that to us (autopilot=true).
const partitionsAuto = 16

// pop serves GET /api/v1/pop/queue/{queue}[/partition/{partition}] and, over the
// queues with some labels, GET /api/v1/pop?namespace=&task=: 200 with leased batches
// of up to "partitions" partitions under one lease, or 204 where nothing came in
// time. A client that has gone gets no lease: what it was to get is given back.
func (s *Server) pop(x *exchange) (answer, error) {
	p := popParams{s: s, batch: s.cfg.PopBatchDefault}
	if err := p.read(x.req.URL.RawQuery); err != nil {
		return answer{}, err
	}
	if x.names.queue == "" && p.namespace == "" && p.task == "" {
		return answer{}, badRequest("invalid_request", "namespace or task is missing; a queue is named in the path, /api/v1/pop/queue/{queue}")
	}
	if p.autopilot && p.partitions == 0 {
		p.partitions = partitionsAuto
	}
	p.partitions = max(p.partitions, 1)
	r := queen.PopRequest{
		Queue: x.names.queue, Partition: x.names.partition, Namespace: p.namespace, Task: p.task, Group: groupOf(p.group),
		Batch: p.batch, Partitions: p.partitions, MaxBytes: s.cfg.PopBytesMax,
		Lease: p.lease, AutoAck: p.autoAck, FromEnd: p.fromEnd, From: p.from, Room: &x.room,
	}
	if p.wait {
		r.Wait = p.timeout
	}
	ctx, cancel := s.waiting(x.req.Context(), r.Wait)
	defer cancel()
	got, err := s.engine.Pop(ctx, r)
	if err != nil {
		return answer{}, err
	}
	if len(got) == 0 {
		return answer{status: http.StatusNoContent}, nil
	}
	a := ok(s.appendPopped(nil, &p, got))
	if lease := got[0].LeaseID; lease != uuid.Nil {
		a.undelivered = func() { s.engine.Release(x.req.Context(), lease) }
	}
	return a, nil
}

// popParams are the parameters of a pop. Each known one is enforced, and any
// other is refused by name.
type popParams struct {
	s          *Server
	batch      int
	partitions int
	wait       bool
	timeout    time.Duration
	namespace  string
	task       string
	group      string
	autoAck    bool
	lease      time.Duration
	fromEnd    bool
	from       time.Time
	autopilot  bool // the client leaves the size to us, and reads what we took
}

func (p *popParams) read(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return badRequest("bad_query", "the query is not well escaped")
	}
	p.timeout = p.s.cfg.WaitDefault
	for name, v := range values {
		if len(v) > 1 {
			return badRequest("invalid_request", name+": is given twice")
		}
		if err := p.set(name, v[0]); err != nil {
			var bad *bodyError
			if errors.As(err, &bad) && bad.path == "" {
				bad.path = show([]byte(name))
			}
			return err
		}
	}
	if p.autoAck && p.lease != 0 {
		return badRequest("invalid_request", "leaseSeconds: a pop with autoAck=true has no lease")
	}
	return nil
}

func (p *popParams) set(name, v string) (err error) {
	c := &p.s.cfg
	var n int
	switch name {
	case "batch":
		p.batch, err = number(v, 1, c.PopBatchMax)
	case "wait":
		p.wait, err = truth(v)
	case "timeout":
		n, err = number(v, 0, int(c.WaitMax.Milliseconds()))
		p.timeout = time.Duration(n) * time.Millisecond
	case "consumerGroup":
		p.group = v
	case "autoAck":
		p.autoAck, err = truth(v)
	case "leaseSeconds":
		n, err = number(v, 1, int(c.LeaseMax.Seconds()))
		p.lease = time.Duration(n) * time.Second
	case "partitions":
		p.partitions, err = number(v, 1, c.PopBatchMax)
	case "namespace":
		p.namespace = v
	case "task":
		p.task = v
	case "autopilot":
		p.autopilot, err = truth(v)
	case "frames":
		// A question whether we would; the answer in JSON says no.
		_, err = truth(v)
	case "subscriptionMode":
		switch v {
		case "new":
			p.fromEnd = true
		case "all":
		default:
			err = refuse("", "must be new or all")
		}
	case "subscriptionFrom":
		if v == "now" {
			p.fromEnd = true
			break
		}
		if p.from, err = timeOf(v); err != nil {
			err = refuse("", "must be now or a time, as 2026-01-02T03:04:05Z")
		}
	case "conflation":
		var on bool
		if on, err = truth(v); err == nil && on {
			err = refuse("not_served", "is not served")
		}
	default:
		return refuse("unknown_parameter", notKnown)
	}
	return err
}

func number(v string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < lo || n > hi {
		return 0, refuse("", "must be a whole number from %d to %d", lo, hi)
	}
	return n, nil
}

func truth(v string) (bool, error) {
	switch v {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, refuse("", "must be true or false")
}

func (s *Server) appendPopped(b []byte, p *popParams, got []queen.Popped) []byte {
	size := 256
	for i := range got {
		for j := range got[i].Messages {
			size += 512 + 2*len(got[i].Messages[j].Value)
		}
	}
	b = append(make([]byte, 0, size), b...)
	b = append(b, `{"success":true,"queue":`...)
	b = appendString(b, got[0].Queue)
	b = append(b, batchMembers(&got[0])...)
	b = append(b, `,"messages":[`...)
	for i := range got {
		shared := batchMembers(&got[i])
		for j := range got[i].Messages {
			if i+j > 0 {
				b = append(b, ',')
			}
			b = s.appendMessage(b, got[i].Queue, shared, &got[i].Messages[j])
		}
	}
	b = append(b, ']')
	if p.autopilot {
		b = append(b, `,"autopilot":{"partitions":`...)
		b = appendInt(b, int64(p.partitions))
		b = append(b, `,"batch":`...)
		b = appendInt(b, int64(p.batch))
		b = append(b, '}')
	}
	return append(b, '}')
}

// batchMembers are the members that every message of a batch repeats, written once.
func batchMembers(got *queen.Popped) []byte {
	var shared []byte
	shared = append(shared, `,"partition":`...)
	shared = appendString(shared, got.Partition)
	shared = append(shared, `,"partitionId":`...)
	shared = appendPartitionID(shared, got.PartitionID)
	shared = append(shared, `,"leaseId":`...)
	if got.LeaseID == uuid.Nil {
		shared = append(shared, "null"...)
	} else {
		shared = appendUUID(shared, got.LeaseID)
	}
	shared = append(shared, `,"consumerGroup":`...)
	if got.Group == "" {
		return appendString(shared, noGroup)
	}
	return appendString(shared, got.Group)
}

// beginMessage opens the object of a stored message, with what every answer says of one.
func (s *Server) beginMessage(b []byte, queue string, m *queen.StoredMessage) []byte {
	b = append(b, `{"id":`...)
	b = appendUUID(b, m.ID)
	b = append(b, ',')
	b = appendBytes(b, "transactionId", "Base64", m.TransactionID)
	b = append(b, `,"traceId":`...)
	if m.TraceID == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, m.TraceID)
	}
	b = append(b, ',')
	b = appendValue(b, "data", m.Value, s.cfg.JSONDepthMax)
	b = append(b, `,"offset":`...)
	b = appendInt(b, m.Offset)
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, m.CreatedAt)
	b = append(b, `,"queue":`...)
	return appendString(b, queue)
}

func (s *Server) appendMessage(b []byte, queue string, shared []byte, m *queen.StoredMessage) []byte {
	b = s.beginMessage(b, queue, m)
	b = append(b, shared...)
	b = append(b, ',')
	b = appendBytes(b, "key", "Base64", m.Key)
	b = append(b, ',')
	b = appendHeaders(b, m.Headers)
	return append(b, '}')
}
