package httpapi

import (
	"slices"
	"unsafe"

	"queenmq/queen"
)

// idBytesMax is the longest transactionId of the contract.
const idBytesMax = 65_535

// pushItems are the items of a push body, in request order. What a message
// holds is part of the body wherever nothing had to be decoded.
type pushItems struct {
	msgs []queen.Message
	// refused says why an item goes no further; nil where none is refused.
	refused map[int]*bodyError
}

// itemBytes is what an item costs besides the bytes of its text: the message,
// its outcome and its share of the answer.
const itemBytes = int64(unsafe.Sizeof(queen.Message{})+unsafe.Sizeof(queen.Pushed{})) + 256

// itemsPerTake is how many items are paid for at a time.
const itemsPerTake = 256

// readPush reads {"items":[…]}. An error is about the whole body: it is no JSON,
// or not of this form. What is wrong inside one item only refuses that item.
func (x *exchange) readPush() (*pushItems, error) {
	r, err := x.jsonBody()
	if err != nil {
		return nil, err
	}
	var items *pushItems
	err = r.object(func(name []byte) error {
		if string(name) != "items" {
			if _, err := r.raw(); err != nil {
				return err
			}
			return refuse("unknown_field", `is not known here: {"items":[{"queue":…, "payload":…}, …]} is expected`)
		}
		if items != nil {
			return repeated()
		}
		items = &pushItems{msgs: x.memory().msgs[:0]}
		return r.array(func(i int) error { return x.readItem(r, items, i) })
	})
	if err != nil {
		return nil, err
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if items == nil {
		return nil, badRequest("invalid_request", `body: "items" is missing`)
	}
	x.memory().msgs = items.msgs
	return items, nil
}

func (x *exchange) readItem(r *reader, items *pushItems, i int) error {
	if i == x.s.cfg.PushItemsMax {
		return &problem{status: 413, word: "too_many_items", text: "more than " + string(appendInt(nil, int64(i))) + " items; send less at once"}
	}
	if i%itemsPerTake == 0 {
		if err := x.take(itemsPerTake * itemBytes); err != nil {
			return err
		}
	}
	start := r.pos
	d := itemReader{r: r}
	if i > 0 {
		d.last = &items.msgs[i-1]
	}
	err := r.object(d.member)
	if err == nil && d.bad == nil {
		d.bad = d.missing()
	}
	if e, is := err.(*bodyError); is && !e.fatal { //nolint:errorlint // made by the reader, not wrapped
		d.bad = e // not an object
	} else if err != nil {
		return err
	}
	if len(items.msgs) == cap(items.msgs) {
		// The first time, room for as many as this one lets expect, and at most for
		// those that are paid for.
		more := 1 + (len(r.src)-r.pos)/max(1, r.pos-start)
		items.msgs = slices.Grow(items.msgs, min(more, itemsPerTake-i%itemsPerTake))
	}
	items.msgs = append(items.msgs, d.msg)
	if d.bad != nil {
		if items.refused == nil {
			items.refused = make(map[int]*bodyError)
		}
		items.refused[i] = d.bad
	}
	return nil
}

// itemReader reads one item. The first thing wrong refuses it; the rest is
// still read.
type itemReader struct {
	r    *reader
	msg  queen.Message
	last *queen.Message // whose names are taken over where they are the same
	seen uint32         // members met, by bit
	bad  *bodyError
}

// The members of an item. Two that say the same thing share a bit with onlyOne.
const (
	sawQueue = 1 << iota
	sawPartition
	sawValue
	sawID
	sawKey
	sawHeaders
	sawTrace
)

func (d *itemReader) member(name []byte) error {
	err := d.read(name)
	if e, is := err.(*bodyError); is && !e.fatal { //nolint:errorlint // made by the reader, not wrapped
		if d.bad == nil {
			d.bad = e
			_ = under(show(name), e)
		}
		return nil
	}
	return err
}

func (d *itemReader) read(name []byte) (err error) {
	r := d.r
	switch string(name) {
	case "queue":
		if err = d.once(sawQueue, "queue"); err == nil {
			d.msg.Queue, err = d.name(func(m *queen.Message) string { return m.Queue })
		}
	case "partition":
		if err = d.once(sawPartition, "partition"); err == nil && !r.null() {
			d.msg.Partition, err = d.name(func(m *queen.Message) string { return m.Partition })
			if err == nil && d.msg.Partition == "" {
				err = refuse("invalid_name", "is empty; leave it out for %q", queen.DefaultPartition)
			}
		}
	case "payload", "data":
		if err = d.once(sawValue, oneValue); err == nil {
			d.msg.Value, err = r.raw()
		}
	case "dataBase64", "payloadBase64":
		if err = d.once(sawValue, oneValue); err == nil {
			d.msg.Value, err = r.base64()
		}
	case "tombstone":
		if err = d.once(sawValue, oneValue); err == nil {
			var yes bool
			if yes, err = r.boolean(); err == nil && !yes {
				err = refuse("", "can only be true; leave it out otherwise")
			}
		}
	case "transactionId":
		if err = d.once(sawID, "transactionId or transactionIdBase64"); err == nil && !r.null() {
			d.msg.ID, err = d.id(r.str())
		}
	case "transactionIdBase64":
		if err = d.once(sawID, "transactionId or transactionIdBase64"); err == nil && !r.null() {
			d.msg.ID, err = d.id(r.base64())
		}
	case "key":
		if err = d.once(sawKey, "key or keyBase64"); err == nil && !r.null() {
			d.msg.Key, err = r.str()
		}
	case "keyBase64":
		if err = d.once(sawKey, "key or keyBase64"); err == nil && !r.null() {
			d.msg.Key, err = r.base64()
		}
	case "headers":
		if err = d.once(sawHeaders, "headers"); err == nil && !r.null() {
			d.msg.Headers, err = r.headers()
		}
	case "traceId":
		if err = d.once(sawTrace, "traceId"); err == nil && !r.null() {
			var v []byte
			v, err = r.str()
			d.msg.TraceID = string(v)
		}
	default:
		err = unknownName(r)
	}
	return err
}

const oneValue = "payload, data, dataBase64 or tombstone"

// once refuses a second member of one kind, whose value is still read.
func (d *itemReader) once(bit uint32, what string) error {
	if d.seen&bit == 0 {
		d.seen |= bit
		return nil
	}
	if _, err := d.r.raw(); err != nil {
		return err
	}
	return refuse("", "is one too many: an item has one of %s", what)
}

// name reads a name. The items of a body mostly share theirs: one string then.
func (d *itemReader) name(of func(*queen.Message) string) (string, error) {
	v, err := d.r.str()
	if err != nil {
		return "", err
	}
	if d.last != nil && of(d.last) == string(v) {
		return of(d.last), nil
	}
	return string(v), nil
}

func (d *itemReader) id(v []byte, err error) ([]byte, error) {
	switch {
	case err != nil:
		return nil, err
	case len(v) == 0:
		return nil, refuse("invalid_transaction_id", "is empty; leave it out to have one minted")
	case len(v) > idBytesMax:
		return nil, refuse("invalid_transaction_id", "is %d bytes long, %d are allowed", len(v), idBytesMax)
	}
	return v, nil
}

func (d *itemReader) missing() *bodyError {
	switch {
	case d.seen&sawQueue == 0:
		return refuse("", "queue is missing")
	case d.seen&sawValue == 0:
		return refuse("", "one of %s is missing", oneValue)
	}
	return nil
}
