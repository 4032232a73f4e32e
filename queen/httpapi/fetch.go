package httpapi

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"queenmq/queen"
)

// fetch serves POST /api/v1/fetch {"entries":[{"queue","partition"?,"offset",
// "maxBytes"?}], "maxWaitMs"?, "minBytes"?, "maxBytes"?}: messages by offset,
// without a lease or a group. Each entry has an outcome of its own, named as
// Kafka names it.
func (s *Server) fetch(x *exchange) (answer, error) {
	q, err := x.readFetch()
	if err != nil {
		return answer{}, err
	}
	var got []queen.Fetched
	if len(q.Items) > 0 {
		q.Room = &x.room
		ctx, cancel := s.waiting(x.req.Context(), q.MaxWait)
		defer cancel()
		if got, err = s.engine.Fetch(ctx, q); err != nil {
			return answer{}, err
		}
	}
	size := 64
	for i := range got {
		size += 256
		for k := range got[i].Messages {
			size += 160 + 4*len(got[i].Messages[k].Value)/3 // as base64
		}
	}
	b := append(make([]byte, 0, size), `{"entries":[`...)
	for i := range got {
		b = appendComma(b, i)
		b = s.appendFetched(b, &q.Items[i], &got[i])
	}
	return ok(append(b, "]}"...)), nil
}

func (x *exchange) readFetch() (queen.FetchRequest, error) {
	c := &x.s.cfg
	q := queen.FetchRequest{MaxBytes: c.FetchBytesMax}
	r, err := x.jsonBody()
	if err != nil {
		return q, err
	}
	seen := make(map[string]bool)
	err = r.object(func(name []byte) error {
		if seen[string(name)] {
			return repeated()
		}
		seen[string(name)] = true
		var n int64
		var err error
		switch string(name) {
		case "entries":
			return r.array(func(i int) error {
				if i == c.FetchEntriesMax {
					return &problem{status: http.StatusBadRequest, word: "too_many_items", text: "more than " + strconv.Itoa(i) + " entries; ask for less at once"}
				}
				it, err := x.readFetchItem(r)
				q.Items = append(q.Items, it)
				return err
			})
		case "maxWaitMs":
			n, err = r.integer(0, c.WaitMax.Milliseconds())
			q.MaxWait = time.Duration(n) * time.Millisecond
		case "minBytes":
			n, err = r.integer(0, math.MaxInt32)
			q.MinBytes = min(int(n), c.FetchBytesMax)
		case "maxBytes":
			n, err = r.integer(1, math.MaxInt32)
			q.MaxBytes = min(int(n), c.FetchBytesMax)
		default:
			err = unknownName(r)
		}
		return err
	})
	if err != nil {
		return q, err
	}
	if err := r.end(); err != nil {
		return q, err
	}
	if !seen["entries"] {
		return q, badRequest("invalid_request", "entries is missing")
	}
	return q, nil
}

func (x *exchange) readFetchItem(r *reader) (queen.FetchItem, error) {
	c := &x.s.cfg
	it := queen.FetchItem{Offset: -1, MaxBytes: c.FetchEntryDefault}
	var sawQueue, sawPartition, sawBytes bool
	err := r.object(func(name []byte) error {
		var v []byte
		var n int64
		var err error
		switch string(name) {
		case "queue":
			if sawQueue {
				return repeated()
			}
			sawQueue = true
			v, err = r.str()
			it.Queue = string(v)
		case "partition":
			if sawPartition {
				return repeated()
			}
			sawPartition = true
			it.Partition, err = r.optional()
		case "offset":
			if it.Offset >= 0 {
				return repeated()
			}
			it.Offset, err = r.integer(0, math.MaxInt64)
		case "maxBytes":
			if sawBytes {
				return repeated()
			}
			sawBytes = true
			n, err = r.integer(1, math.MaxInt32)
			it.MaxBytes = min(int(n), c.FetchBytesMax)
		default:
			err = unknownName(r)
		}
		return err
	})
	switch {
	case err != nil:
	case !sawQueue:
		err = refuse("", "queue is missing")
	case it.Offset < 0:
		err = refuse("", "offset is missing")
	}
	return it, err
}

func (s *Server) appendFetched(b []byte, it *queen.FetchItem, f *queen.Fetched) []byte {
	b = append(b, `{"queue":`...)
	b = appendString(b, it.Queue)
	b = append(b, `,"partition":`...)
	partition := it.Partition
	if partition == "" {
		partition = queen.DefaultPartition
	}
	b = appendString(b, partition)
	b = append(b, `,"records":[`...)
	for i := range f.Messages {
		m := &f.Messages[i]
		b = appendComma(b, i)
		b = append(b, `{"offset":`...)
		b = appendInt(b, m.Offset)
		b = append(b, `,"id":`...)
		b = appendUUID(b, m.ID)
		b = append(b, ',')
		b = appendBytes(b, "transactionId", "Base64", m.TransactionID)
		b = append(b, ',')
		b = appendValue(b, "payload", m.Value, s.cfg.JSONDepthMax)
		b = append(b, `,"ts":`...)
		b = appendTime(b, m.CreatedAt)
		b = append(b, ',')
		b = appendBytes(b, "key", "Base64", m.Key)
		b = append(b, ',')
		b = appendHeaders(b, m.Headers)
		b = append(b, '}')
	}
	b = append(b, `],"highWatermark":`...)
	b = appendMark(b, f.HighWatermark)
	b = append(b, `,"logStartOffset":`...)
	b = appendMark(b, f.LogStart)
	b = append(b, `,"error":`...)
	if f.Err == nil {
		b = append(b, "null"...)
	} else {
		b = appendString(b, fetchName(f.Err))
		b = append(b, `,"message":`...)
		b = appendString(b, textOf(f.Err))
	}
	return append(b, '}')
}

// appendMark appends a watermark; null where it is not known.
func appendMark(b []byte, n int64) []byte {
	if n < 0 {
		return append(b, "null"...)
	}
	return appendInt(b, n)
}
