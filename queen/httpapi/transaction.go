package httpapi

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"queenmq/queen"
)

// txBody is a transaction as read.
type txBody struct {
	tx     queen.Transaction
	kv     []kvOp
	leases []uuid.UUID
	seen   []string
	count  int // messages and acks
}

// transaction serves POST /api/v1/transaction {"operations":[{"type":"push"|"ack", …}],
// "kv":[…], "timers":[…], "requiredLeases":[…]}: all of it or nothing. One that is well formed
// and rolls back is 200 with success false and the reason. An ack that names no
// lease is under the one that is required, where that is only one.
func (s *Server) transaction(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	var t txBody
	err = r.object(func(name []byte) error {
		n := string(name)
		if slices.Contains(t.seen, n) {
			return repeated()
		}
		t.seen = append(t.seen, n)
		switch n {
		case "operations":
			return r.array(func(int) error { return x.readOperation(r, &t) })
		case "kv":
			return r.kvOps(&t.kv, false)
		case "timers":
			return r.timerOps(&t.tx.Timers)
		case "requiredLeases":
			return r.array(func(int) error {
				v, err := r.str()
				if err == nil {
					t.leases = append(t.leases, leaseOf(string(v)))
				}
				return err
			})
		}
		return unknownName(r)
	})
	if err == nil {
		err = r.end()
	}
	if err == nil {
		err = t.lend()
	}
	if err != nil {
		return answer{}, err
	}
	t.tx.KV = engineOps(t.kv)
	ctx, cancel := x.context()
	defer cancel()
	got, err := s.engine.Transact(ctx, t.tx)
	if err != nil {
		return answer{}, err
	}
	if got.Reason != "" {
		return ok(t.appendRollback(nil, &got)), nil
	}
	return ok(t.appendCommit(nil, &got)), nil
}

// leaseOf reads a lease's id. One that is not of our making is no lease that lives.
func leaseOf(text string) uuid.UUID {
	if id, err := uuid.Parse(text); err == nil && id != uuid.Nil {
		return id
	}
	var nobody uuid.UUID
	for i := range nobody {
		nobody[i] = byte(rand.Uint32())
	}
	return nobody
}

// readOperation reads one operation, which says what it is in any of its members.
func (x *exchange) readOperation(r *reader, t *txBody) error {
	text, err := r.raw()
	if err != nil {
		return err
	}
	kind := ""
	look := &reader{src: text, depthMax: r.depthMax}
	if err := look.object(func(name []byte) error {
		if string(name) != "type" {
			_, err := look.raw()
			return err
		}
		if kind != "" {
			return repeated()
		}
		v, err := look.str()
		kind = string(v)
		return err
	}); err != nil {
		return err
	}
	in := &reader{src: text, depthMax: r.depthMax}
	switch kind {
	case "push":
		return x.readPushOperation(in, t)
	case "ack":
		return x.readAckOperation(in, t)
	case "":
		return refuse("", "type is missing: push or ack")
	}
	return under("type", refuse("", "must be push or ack"))
}

// counted bounds messages and acks, and pays for them.
func (x *exchange) counted(t *txBody) error {
	if t.count == queen.TransactionPushesMax {
		return &problem{status: http.StatusRequestEntityTooLarge, word: "too_many_items", text: "more than " + string(appendInt(nil, int64(t.count))) + " messages and acks; send less at once"}
	}
	if t.count%itemsPerTake == 0 {
		if err := x.take(itemsPerTake * itemBytes); err != nil {
			return err
		}
	}
	t.count++
	return nil
}

// readPushOperation reads {"type":"push", "items":[…]}, or one item's members in
// the place of items.
func (x *exchange) readPushOperation(r *reader, t *txBody) error {
	var o queen.Operation
	one := itemReader{r: r}
	many := false
	item := func() (queen.Message, error) {
		d := itemReader{r: r}
		if n := len(o.Push); n > 0 {
			d.last = &o.Push[n-1]
		}
		err := r.object(d.member)
		if err == nil && d.bad == nil {
			d.bad = d.missing()
		}
		if err == nil && d.bad != nil {
			err = d.bad
		}
		return d.msg, err
	}
	err := r.object(func(name []byte) error {
		switch string(name) {
		case "type":
			_, err := r.raw()
			return err
		case "items":
			if many {
				return repeated()
			}
			many = true
			return r.array(func(int) error {
				if err := x.counted(t); err != nil {
					return err
				}
				m, err := item()
				o.Push = append(o.Push, m)
				return err
			})
		}
		return one.member(name)
	})
	switch {
	case err != nil:
		return err
	case many && (one.seen != 0 || one.bad != nil):
		return refuse("", "a push has items, or the members of one item")
	case !many && one.bad != nil:
		return one.bad
	case !many && one.missing() != nil:
		return one.missing()
	case !many:
		if err := x.counted(t); err != nil {
			return err
		}
		o.Push = []queen.Message{one.msg}
	}
	t.tx.Operations = append(t.tx.Operations, o)
	return nil
}

func (x *exchange) readAckOperation(r *reader, t *txBody) error {
	if err := x.counted(t); err != nil {
		return err
	}
	it, err := readAck(r, "type")
	if err != nil {
		return err
	}
	if it.outcome != nil && it.ack.LeaseID == uuid.Nil && it.ack.PartitionID != 0 {
		it.ack.LeaseID = leaseOf("") // a lease not of our making
	}
	t.tx.Operations = append(t.tx.Operations, queen.Operation{Ack: &it.ack})
	return nil
}

// lend gives the one lease that is required to acks that name none. A lease that no
// ack is under cannot be required.
func (t *txBody) lend() error {
	slices.SortFunc(t.leases, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	t.leases = slices.Compact(t.leases)
	var used []uuid.UUID
	for _, o := range t.tx.Operations {
		if o.Ack == nil {
			continue
		}
		if o.Ack.LeaseID == uuid.Nil && len(t.leases) == 1 {
			o.Ack.LeaseID = t.leases[0]
		}
		used = append(used, o.Ack.LeaseID)
	}
	for i, l := range t.leases {
		if !slices.Contains(used, l) {
			return under("requiredLeases", refuse("", "no ack of the transaction is under lease %d of them", i+1))
		}
	}
	return nil
}

// appendCommit answers what took effect: one result per message and ack in the
// order of operations, then per operation on keys, then on timers.
func (t *txBody) appendCommit(b []byte, got *queen.Transacted) []byte {
	b = append(b, `{"success":true,"results":[`...)
	var same sameText
	at, pushed := 0, 0
	next := func() {
		b = appendComma(b, at)
		at++
	}
	for i := range t.tx.Operations {
		o := &t.tx.Operations[i]
		if o.Ack != nil {
			next()
			b = append(b, `{"index":`...)
			b = appendInt(b, int64(at-1))
			b = append(b, `,"type":"ack","success":true,`...)
			b = append(appendBytes(b, "transactionId", "Base64", o.Ack.TransactionID), '}')
		}
		for k := range o.Push {
			next()
			p := &got.Pushed[pushed]
			pushed++
			b = same.appendPushed(b, at-1, &o.Push[k], p)
			b = append(b[:len(b)-1], `,"type":"push","success":true`...)
			if p.Status == queen.Duplicate {
				b = append(b, `,"duplicate":true`...)
			}
			b = append(b, '}')
		}
	}
	for i := range t.kv {
		next()
		b = append(b, `{"index":`...)
		b = appendInt(b, int64(at-1))
		b = append(b, `,"type":"kv",`...)
		b = append(appendKV(b, &t.kv[i], &got.KV[i]), '}')
	}
	for i := range t.tx.Timers {
		next()
		b = append(b, `{"index":`...)
		b = appendInt(b, int64(at-1))
		b = append(b, `,"type":"timer",`...)
		b = append(appendTimer(b, &t.tx.Timers[i], &got.Timers[i]), '}')
	}
	return append(b, "]}"...)
}

// appendRollback answers that nothing took effect, and why.
func (t *txBody) appendRollback(b []byte, got *queen.Transacted) []byte {
	b = append(b, `{"success":false,"reason":`...)
	b = appendString(b, string(got.Reason))
	if got.Failed >= 0 {
		b = append(b, `,"failedIndex":`...)
		b = appendInt(b, int64(got.Failed))
	}
	if got.Lost != nil {
		b = appendLost(b, got.Lost)
	}
	// Clients show this text alone: it begins with the reason.
	b = append(b, `,"error":`...)
	b = appendString(b, string(got.Reason)+": "+got.Err.Error())
	if got.Reason == queen.RollbackDuplicate {
		b = append(b, `,"duplicates":[`...)
		var same sameText
		at, pushed, first := 0, 0, true
		for i := range t.tx.Operations {
			o := &t.tx.Operations[i]
			if o.Ack != nil {
				at++
			}
			for k := range o.Push {
				if p := &got.Pushed[pushed]; p.Status == queen.Duplicate {
					if !first {
						b = append(b, ',')
					}
					first = false
					b = same.appendPushed(b, at, &o.Push[k], p)
				}
				at++
				pushed++
			}
		}
		b = append(b, ']')
	}
	return append(b, '}')
}
