package httpapi

import (
	"math"
	"net/url"
	"strings"

	"queenmq/queen"
)

// listQueues serves GET /api/v1/resources/queues?search=&limit=&offset=, by name.
func (s *Server) listQueues(x *exchange) (answer, error) {
	search, limit, offset, err := listParams(x.req.URL.RawQuery)
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	all, err := s.engine.AllQueues(ctx)
	if err != nil {
		return answer{}, err
	}
	b := []byte(`{"queues":[`)
	total, shown := 0, 0
	for i := range all {
		if !strings.Contains(all[i].Name, search) {
			continue
		}
		if total++; total <= offset || shown == limit {
			continue
		}
		if shown++; shown > 1 {
			b = append(b, ',')
		}
		b = appendQueue(b, &all[i])
	}
	b = append(b, `],"total":`...)
	return ok(append(appendInt(b, int64(total)), '}')), nil
}

func listParams(query string) (search string, limit, offset int, err error) {
	limit = math.MaxInt
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", 0, 0, badRequest("bad_query", "the query is not well escaped")
	}
	for name, v := range values {
		switch {
		case len(v) > 1:
			err = badRequest("invalid_request", show([]byte(name))+": is given twice")
		case name == "search":
			search = v[0]
		case name == "limit":
			limit, err = number(v[0], 0, math.MaxInt32)
		case name == "offset":
			offset, err = number(v[0], 0, math.MaxInt32)
		default:
			err = refuse("unknown_parameter", "is not known here")
		}
		if err != nil {
			return "", 0, 0, under(show([]byte(name)), err)
		}
	}
	return search, limit, offset, nil
}

// getQueue serves GET /api/v1/resources/queues/{queue}.
func (s *Server) getQueue(x *exchange) (answer, error) {
	ctx, cancel := x.context()
	defer cancel()
	got, err := s.engine.Queues(ctx, []queen.QueueRef{{Name: x.names.queue}})
	if err != nil {
		return answer{}, err
	}
	if err := got[0].Err; err != nil {
		return answer{}, err
	}
	return ok(appendQueue(nil, &got[0].Queue)), nil
}

// deleteQueue serves DELETE /api/v1/resources/queues/{queue}: the queue with all
// its messages. Its name is free at once.
func (s *Server) deleteQueue(x *exchange) (answer, error) {
	ctx, cancel := x.context()
	defer cancel()
	q, err := s.engine.DeleteQueue(ctx, queen.QueueRef{Name: x.names.queue})
	if err != nil {
		return answer{}, err
	}
	b := []byte(`{"success":true,"deleted":true,"queue":`)
	b = appendString(b, q.Name)
	b = append(b, `,"topicId":`...)
	return ok(append(appendUUID(b, q.TopicID), '}')), nil
}

// listPartitions serves GET /api/v1/resources/queues/{queue}/partitions.
func (s *Server) listPartitions(x *exchange) (answer, error) {
	ctx, cancel := x.context()
	defer cancel()
	parts, err := s.engine.Partitions(ctx, x.names.queue)
	if err != nil {
		return answer{}, err
	}
	b := []byte(`{"queue":`)
	b = appendString(b, x.names.queue)
	b = append(b, `,"partitions":[`...)
	for i := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendPartitionID(b, parts[i].ID)
		b = append(b, `,"number":`...)
		b = appendInt(b, int64(parts[i].Number))
		b = append(b, `,"name":`...)
		b = appendString(b, parts[i].Name)
		b = append(b, `,"logStartOffset":`...)
		b = appendInt(b, parts[i].LogStart)
		b = append(b, `,"highWatermark":`...)
		b = appendInt(b, parts[i].LogEnd)
		b = append(b, '}')
	}
	return ok(append(b, "]}"...)), nil
}

func appendQueue(b []byte, q *queen.Queue) []byte {
	b = append(b, `{"name":`...)
	b = appendString(b, q.Name)
	b = append(b, `,"topicId":`...)
	b = appendUUID(b, q.TopicID)
	b = append(b, `,"partitions":`...)
	b = appendInt(b, int64(q.Partitions))
	b = append(b, `,"fixedPartitions":`...)
	b = appendBool(b, q.Fixed)
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, q.CreatedAt)
	b = appendLabels(b, &q.Options)
	b = append(b, `,"dedupWindowSeconds":`...)
	b = appendInt(b, int64(q.Options.DedupWindowSeconds))
	b = append(b, `,"windowFrom":`...)
	b = appendString(b, string(q.Options.WindowFrom))
	b = append(b, `,"options":`...)
	b = appendOptions(b, &q.Options)
	return append(b, '}')
}
