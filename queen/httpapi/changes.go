package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"queenmq/queen"
)

// changed serves POST /api/v1/partitions/changed {"entries":[{"queue", "since"?,
// "after"?, "limit"?}]}: which partitions were written to at or after a time, by
// number, and up to which moment the answer holds every write (safeTime, the next
// since). after is the next of the page before. Errors are named as Kafka names them.
func (s *Server) changed(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	var qs []queen.ChangesQuery
	seen := false
	err = r.object(func(name []byte) error {
		if string(name) != "entries" {
			return unknownName(r)
		}
		if seen {
			return repeated()
		}
		seen = true
		return r.array(func(i int) error {
			if i == s.cfg.FetchEntriesMax {
				return &problem{status: http.StatusBadRequest, word: "too_many_items", text: "more than " + strconv.Itoa(i) + " entries; ask for less at once"}
			}
			q, err := readChange(r)
			qs = append(qs, q)
			return err
		})
	})
	if err == nil {
		err = r.end()
	}
	if err == nil && !seen {
		err = badRequest("invalid_request", "entries is missing")
	}
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	safe, got, err := s.engine.Changed(ctx, qs)
	if err != nil {
		return answer{}, err
	}
	b := []byte(`{"safeTime":`)
	b = appendMicros(b, safe)
	b = append(b, `,"entries":[`...)
	for i := range got {
		b = appendComma(b, i)
		b = appendChanges(b, qs[i].Queue, &got[i])
	}
	return ok(append(b, "]}"...)), nil
}

func readChange(r *reader) (queen.ChangesQuery, error) {
	q := queen.ChangesQuery{Limit: 1000}
	seen := make(map[string]bool)
	err := r.object(func(member []byte) error {
		name := string(member)
		if seen[name] {
			return repeated()
		}
		seen[name] = true
		var v string
		var n int64
		var err error
		switch name {
		case "queue":
			var text []byte
			text, err = r.str()
			q.Queue = string(text)
		case "since":
			if v, err = r.optional(); v != "" {
				q.Since, err = timeOf(v)
			}
		case "after":
			if v, err = r.optional(); v != "" {
				q.From, err = strconv.Atoi(v)
				if err != nil || q.From < 0 {
					err = refuse("", "is not the next of a page")
				}
			}
		case "limit":
			n, err = r.integer(1, queen.ChangesMax)
			q.Limit = int(n)
		default:
			err = unknownName(r)
		}
		return err
	})
	if err == nil && !seen["queue"] {
		err = refuse("", "queue is missing")
	}
	return q, err
}

func appendChanges(b []byte, queue string, c *queen.Changes) []byte {
	b = append(b, `{"queue":`...)
	b = appendString(b, queue)
	b = append(b, `,"partitions":[`...)
	for i := range c.Partitions {
		p := &c.Partitions[i]
		b = appendComma(b, i)
		b = append(b, `{"name":`...)
		b = appendString(b, p.Name)
		b = append(b, `,"id":`...)
		b = appendPartitionID(b, p.ID)
		b = append(b, `,"lastOffset":`...)
		b = appendMark(b, p.LastOffset)
		b = append(b, `,"logStart":`...)
		b = appendInt(b, p.LogStart)
		b = append(b, `,"lastWriteAt":`...)
		if p.LastWriteAt.IsZero() {
			b = append(b, "null"...)
		} else {
			b = appendMicros(b, p.LastWriteAt)
		}
		b = append(b, '}')
	}
	b = append(b, `],"next":`...)
	if c.More == 0 {
		b = append(b, "null"...)
	} else {
		b = appendString(b, strconv.Itoa(c.More))
	}
	b = append(b, `,"error":`...)
	if c.Err == nil {
		b = append(b, "null"...)
	} else {
		b = appendString(b, fetchName(c.Err))
		b = append(b, `,"message":`...)
		b = appendString(b, textOf(c.Err))
	}
	return append(b, '}')
}

// appendMicros appends a time with all the digits the database has, so that what is
// sent back as since misses nothing; as text such times compare as they follow.
func appendMicros(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	return append(b, '"')
}
