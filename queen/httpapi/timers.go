package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"queenmq/queen"
)

// timers serves POST /api/v1/timers {"operations":[…]}, or the array alone: timers
// are scheduled and cancelled together.
func (s *Server) timers(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	var ops []queen.TimerOp
	saw := false
	if r.next() == '[' {
		saw = true
		err = r.timerOps(&ops)
	} else {
		err = r.object(func(name []byte) error {
			switch {
			case string(name) != "operations":
				return unknownName(r)
			case saw:
				return repeated()
			}
			saw = true
			return r.timerOps(&ops)
		})
	}
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return answer{}, err
	}
	if !saw {
		return answer{}, badRequest("invalid_request", `body: "operations" is missing`)
	}
	var got []queen.TimerResult
	if len(ops) > 0 {
		ctx, cancel := x.context()
		defer cancel()
		if got, err = s.engine.Timers(ctx, ops); err != nil {
			return answer{}, err
		}
	}
	b := []byte(`{"success":true,"results":[`)
	for i := range got {
		b = appendComma(b, i)
		b = append(b, `{"index":`...)
		b = appendInt(b, int64(i))
		b = append(b, ',')
		b = append(appendTimer(b, &ops[i], &got[i]), '}')
	}
	return ok(append(b, "]}"...)), nil
}

// timerOps reads an array of operations.
func (r *reader) timerOps(ops *[]queen.TimerOp) error {
	return r.array(func(i int) error {
		if i == queen.TimerOpsMax {
			return &problem{status: http.StatusRequestEntityTooLarge, word: "too_many_items", text: "more than " + string(appendInt(nil, int64(i))) + " timers; send less at once"}
		}
		o, err := r.timerOp()
		*ops = append(*ops, o)
		return err
	})
}

// timerMembers are the members of a schedule; a cancel has the first four.
var timerMembers = []string{"op", "queue", "timerKey", "txn", "partition", "payload", "data", "delayMs", "payloadZstd"}

func (r *reader) timerOp() (o queen.TimerOp, err error) {
	var seen []string
	op := ""
	err = r.object(func(name []byte) error {
		n := string(name)
		switch {
		case slices.Contains(seen, n):
			return repeated()
		case !slices.Contains(timerMembers, n):
			if _, err := r.raw(); err != nil {
				return err
			}
			return refuse("unknown_field", "is not known here; when a timer is due is said by delayMs, from now")
		}
		seen = append(seen, n)
		return r.timerMember(&o, &op, n)
	})
	if err != nil {
		return o, err
	}
	need := timerMembers[1:3]
	switch op {
	case "schedule", "reschedule":
		need = append(slices.Clone(need), "delayMs")
		if slices.Contains(seen, "payload") == slices.Contains(seen, "data") {
			return o, refuse("", "a timer has one of payload (base64) and data (JSON)")
		}
	case "cancel":
		o.Cancel = true
		for _, n := range seen {
			if !slices.Contains(timerMembers[:4], n) {
				return o, under(n, refuse("", "is not for cancel"))
			}
		}
	default:
		return o, refuse("", "op is missing")
	}
	for _, n := range need {
		if !slices.Contains(seen, n) {
			return o, refuse("", "%s is missing", n)
		}
	}
	return o, nil
}

func (r *reader) timerMember(o *queen.TimerOp, op *string, name string) error {
	var v []byte
	var err error
	switch name {
	case "op":
		v, err = r.str()
		*op = string(v)
		if err == nil && *op != "schedule" && *op != "reschedule" && *op != "cancel" {
			err = refuse("", "must be schedule, reschedule or cancel")
		}
	case "queue":
		v, err = r.str()
		o.Queue = string(v)
	case "timerKey":
		v, err = r.str()
		o.Key = string(v)
	case "txn":
		if !r.null() {
			if o.ID, err = r.str(); err == nil && (len(o.ID) == 0 || len(o.ID) > idBytesMax) {
				err = refuse("invalid_transaction_id", "has 1 to %d bytes; leave it out to have one minted", idBytesMax)
			}
		}
	case "partition":
		if !r.null() {
			v, err = r.str()
			if o.Partition = string(v); err == nil && o.Partition == "" {
				err = refuse("invalid_name", "is empty; leave it out for %q", queen.DefaultPartition)
			}
		}
	case "payload":
		o.Payload, err = r.base64()
	case "data":
		o.Payload, err = r.raw()
	case "delayMs":
		var n int64
		n, err = r.integer(-queen.TimerHorizon.Milliseconds(), queen.TimerHorizon.Milliseconds())
		o.Delay = time.Duration(n) * time.Millisecond
	case "payloadZstd":
		var yes bool
		if yes, err = r.boolean(); err == nil && yes {
			err = refuse("not_served", "is not served: send the payload as it is to be delivered")
		}
	}
	return err
}

// appendTimer appends the members of an operation's outcome.
func appendTimer(b []byte, o *queen.TimerOp, r *queen.TimerResult) []byte {
	b = append(b, `"ok":`...)
	b = appendBool(b, r.Status != queen.TimerAbsent)
	b = append(b, `,"status":`...)
	b = appendString(b, string(r.Status))
	b = append(b, `,"queue":`...)
	b = appendString(b, o.Queue)
	b = append(b, `,"timerKey":`...)
	b = appendString(b, o.Key)
	b = append(b, ',')
	b = appendBytes(b, "txn", "Base64", r.ID)
	if !o.Cancel {
		b = append(b, `,"messageId":`...)
		b = appendUUID(b, r.MessageID)
	}
	b = append(b, `,"deliverAt":`...)
	return appendMoment(b, r.DeliverAt)
}

// deleteTimer serves DELETE /api/v1/timers/{queue}/{timerKey}?txn=: 200 also where
// nothing is pending. The key is the rest of the path; txn only comes back.
func (s *Server) deleteTimer(x *exchange) (answer, error) {
	o := queen.TimerOp{Cancel: true, Queue: x.names.queue, Key: x.names.key}
	values, err := url.ParseQuery(x.req.URL.RawQuery)
	if err != nil {
		return answer{}, badRequest("bad_query", "the query is not well escaped")
	}
	for name, v := range values {
		switch {
		case name != "txn":
			return answer{}, under(show([]byte(name)), refuse("unknown_parameter", "is not known here"))
		case len(v) > 1:
			return answer{}, under(name, repeated())
		}
		o.ID = []byte(v[0])
	}
	ctx, cancel := x.context()
	defer cancel()
	got, err := s.engine.Timers(ctx, []queen.TimerOp{o})
	if err != nil {
		return answer{}, err
	}
	return ok(append(appendTimer([]byte{'{'}, &o, &got[0]), '}')), nil
}

// getTimer serves GET /api/v1/timers/{queue}/{timerKey}: 200 also where none is pending.
func (s *Server) getTimer(x *exchange) (answer, error) {
	ctx, cancel := x.context()
	defer cancel()
	t, found, err := s.engine.Timer(ctx, x.names.queue, x.names.key)
	if err != nil {
		return answer{}, err
	}
	if !found {
		return ok([]byte(`{"found":false}`)), nil
	}
	b := []byte(`{"found":true,"queue":`)
	b = appendString(b, x.names.queue)
	b = appendPending(append(b, ','), &t)
	b = append(b, `,"payload":`...)
	b = appendBase64(b, t.Payload)
	return ok(append(b, `,"encrypted":false}`...)), nil
}

func appendPending(b []byte, t *queen.PendingTimer) []byte {
	b = append(b, `"timerKey":`...)
	b = appendString(b, t.Key)
	b = append(b, `,"partition":`...)
	if t.Partition == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, t.Partition)
	}
	b = append(b, ',')
	b = appendBytes(b, "txn", "Base64", t.ID)
	b = append(b, `,"messageId":`...)
	b = appendUUID(b, t.MessageID)
	b = append(b, `,"deliverAt":`...)
	b = appendMoment(b, t.DeliverAt)
	b = append(b, `,"attempts":`...)
	b = appendInt(b, int64(t.Attempts))
	b = append(b, `,"lastError":`...)
	if t.LastError == "" {
		return append(b, "null"...)
	}
	return appendString(b, t.LastError)
}

// listTimers serves GET /api/v1/timers/{queue}?after=&limit=, by key.
func (s *Server) listTimers(x *exchange) (answer, error) {
	values, err := url.ParseQuery(x.req.URL.RawQuery)
	if err != nil {
		return answer{}, badRequest("bad_query", "the query is not well escaped")
	}
	after, limit := "", 0
	for name, v := range values {
		switch {
		case name != "after" && name != "limit":
			return answer{}, under(show([]byte(name)), refuse("unknown_parameter", "is not known here"))
		case len(v) > 1:
			return answer{}, under(name, repeated())
		case name == "after":
			after = v[0]
		default:
			if limit, err = number(v[0], 1, 1<<31-1); err != nil {
				return answer{}, under(name, err)
			}
		}
	}
	ctx, cancel := x.context()
	defer cancel()
	page, more, err := s.engine.ListTimers(ctx, x.names.queue, after, limit)
	if err != nil {
		return answer{}, err
	}
	b := []byte(`{"queue":`)
	b = appendString(b, x.names.queue)
	b = append(b, `,"rows":[`...)
	for i := range page {
		b = appendComma(b, i)
		b = append(appendPending(append(b, '{'), &page[i]), '}')
	}
	b = append(b, `],"truncated":`...)
	b = appendBool(b, more)
	if more {
		b = append(b, `,"nextAfter":`...)
		b = appendString(b, page[len(page)-1].Key)
	}
	return ok(append(b, '}')), nil
}
