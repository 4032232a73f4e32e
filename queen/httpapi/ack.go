package httpapi

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"queenmq/queen"
)

// ackItem is one acknowledgment of a body. Its ids are opaque to clients, so
// one that is not of our making is an outcome of the item, not a bad request.
type ackItem struct {
	ack     queen.Ack
	outcome error // set where the engine need not be asked
	grouped bool  // it named its group itself
}

// ack serves POST /api/v1/ack with one acknowledgment; the answer is an array
// of one.
func (s *Server) ack(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	item, err := readAck(r)
	if err != nil {
		return answer{}, err
	}
	if err := r.end(); err != nil {
		return answer{}, err
	}
	return s.ackAll(x, []ackItem{item})
}

// ackBatch serves POST /api/v1/ack/batch {"acknowledgments":[…], "consumerGroup"?}.
// A body of the wrong form acknowledges nothing; otherwise each item has an
// outcome of its own.
func (s *Server) ackBatch(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	var items []ackItem
	var group string
	var saw, sawGroup bool
	err = r.object(func(name []byte) error {
		switch string(name) {
		case "acknowledgments":
			if saw {
				return repeated()
			}
			saw = true
			return r.array(func(i int) error {
				if i == s.cfg.PushItemsMax {
					return &problem{status: http.StatusRequestEntityTooLarge, word: "too_many_items", text: "more than " + strconv.Itoa(i) + " acknowledgments; send less at once"}
				}
				if i%itemsPerTake == 0 {
					if err := x.take(itemsPerTake * itemBytes); err != nil {
						return err
					}
				}
				item, err := readAck(r)
				items = append(items, item)
				return err
			})
		case "consumerGroup":
			if sawGroup {
				return repeated()
			}
			sawGroup = true
			var err error
			group, err = r.optional()
			return err
		}
		return unknownName(r)
	})
	if err != nil {
		return answer{}, err
	}
	if err := r.end(); err != nil {
		return answer{}, err
	}
	if !saw {
		return answer{}, badRequest("invalid_request", `body: "acknowledgments" is missing`)
	}
	for i := range items {
		if !items[i].grouped {
			items[i].ack.Group = groupOf(group)
		}
	}
	return s.ackAll(x, items)
}

// optional reads a string; null reads as empty.
func (r *reader) optional() (string, error) {
	if r.null() {
		return "", nil
	}
	v, err := r.str()
	return string(v), err
}

// readAck reads an acknowledgment; members named as known are passed over.
func readAck(r *reader, known ...string) (ackItem, error) {
	var it ackItem
	var seen []string
	err := r.object(func(name []byte) (err error) {
		for _, s := range seen {
			if s == string(name) {
				return repeated()
			}
		}
		seen = append(seen, string(name))
		var v string
		switch string(name) {
		case "transactionId":
			it.ack.TransactionID, err = r.str()
		case "transactionIdBase64":
			it.ack.TransactionID, err = r.base64()
		case "partitionId":
			err = it.partition(r)
		case "leaseId":
			if v, err = r.optional(); v != "" {
				if it.ack.LeaseID, err = uuid.Parse(v); err != nil {
					it.outcome, err = queen.ErrLeaseLost, nil
				}
			}
		case "consumerGroup":
			v, err = r.optional()
			it.grouped, it.ack.Group = v != "", groupOf(v)
		case "status":
			if v, err = r.optional(); err == nil {
				it.ack.Status, err = statusOf(v)
			}
		case "error":
			it.ack.Reason, err = r.optional()
		default:
			if slices.Contains(known, string(name)) {
				_, err = r.raw()
			} else {
				err = unknownName(r)
			}
		}
		return err
	})
	switch {
	case err != nil:
	case len(it.ack.TransactionID) == 0:
		err = refuse("", "transactionId is missing or empty")
	case it.ack.PartitionID == 0 && it.outcome == nil:
		err = refuse("", "partitionId is missing")
	case it.ack.Status == "":
		err = refuse("", "status is missing")
	}
	return it, err
}

// partition reads a partition's id: text as we answer it, or a number.
func (it *ackItem) partition(r *reader) error {
	var text []byte
	var err error
	if r.next() == '"' {
		text, err = r.str()
	} else {
		text, err = r.raw()
	}
	if err != nil {
		return err
	}
	if id, bad := strconv.ParseInt(string(text), 10, 64); bad == nil && id > 0 {
		it.ack.PartitionID = id
	} else {
		it.outcome = queen.ErrUnresolvable
	}
	return nil
}

func statusOf(word string) (queen.AckStatus, error) {
	switch s := queen.AckStatus(word); s {
	case queen.AckCompleted, queen.AckFailed, queen.AckRetry, queen.AckDead:
		return s, nil
	}
	return "", refuse("", "must be completed, failed, retry or dlq")
}

// ackAll asks the engine and answers 200 with one outcome per item, in order;
// 503 where none has a definite one.
func (s *Server) ackAll(x *exchange, items []ackItem) (answer, error) {
	ctx, cancel := x.context()
	defer cancel()
	acks := make([]queen.Ack, 0, len(items))
	for i := range items {
		if items[i].outcome == nil {
			acks = append(acks, items[i].ack)
		}
	}
	var acked []queen.Acked
	if len(acks) > 0 {
		acked = s.engine.Ack(ctx, acks)
	}
	b := append(make([]byte, 0, 16+len(items)*128), '[')
	undecided, k := 0, 0
	for i := range items {
		got := queen.Acked{Err: items[i].outcome}
		if got.Err == nil {
			got = acked[k]
			k++
		}
		b = appendComma(b, i)
		b = appendAcked(b, i, &items[i].ack, got)
		if got.Err != nil && problemOf(got.Err).status >= http.StatusInternalServerError {
			undecided++
		}
	}
	b = append(b, ']')
	if undecided > 0 && undecided == len(items) {
		p := problemOf(acked[0].Err)
		p.items = b
		return answer{}, p
	}
	return ok(b), nil
}

func appendAcked(b []byte, index int, a *queen.Ack, got queen.Acked) []byte {
	b = append(b, `{"index":`...)
	b = appendInt(b, int64(index))
	b = append(b, ',')
	b = appendBytes(b, "transactionId", "Base64", a.TransactionID)
	b = append(b, `,"success":`...)
	b = strconv.AppendBool(b, got.Err == nil)
	if got.Dead {
		b = append(b, `,"deadLettered":true`...)
	}
	if got.Err != nil {
		p := problemOf(got.Err)
		b = append(b, `,"error":`...)
		b = appendString(b, p.text)
		b = append(b, `,"code":`...)
		b = appendString(b, p.word)
	}
	return append(b, '}')
}
