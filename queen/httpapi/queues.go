package httpapi

import (
	"context"
	"errors"
	"math"
	"strings"

	"queenmq/queen"
)

// listQueues serves GET /api/v1/resources/queues?search=&limit=&offset=, by name.
func (s *Server) listQueues(x *exchange) (answer, error) {
	page, err := readPage(x.req.URL.RawQuery, "search")
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
	for i := range all {
		if !strings.Contains(all[i].Name, page.filter) {
			continue
		}
		var here bool
		if b, here = page.next(b); here {
			b = appendQueue(b, &all[i])
		}
	}
	return page.end(b), nil
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

// listPartitions serves GET /api/v1/resources/queues/{queue}/partitions?fromPartition=
// &limit=: a page by number, and next, the number at which the next one begins.
func (s *Server) listPartitions(x *exchange) (answer, error) {
	var from, limit int
	err := eachParam(x.req.URL.RawQuery, func(name, v string) (err error) {
		switch name {
		case "fromPartition":
			from, err = number(v, 0, math.MaxInt32)
		case "limit":
			limit, err = number(v, 1, listMax)
		default:
			err = noSuchParam()
		}
		return err
	})
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	parts, next, err := s.engine.Partitions(ctx, x.names.queue, from, limit)
	if err != nil {
		return answer{}, err
	}
	b := []byte(`{"queue":`)
	b = appendString(b, x.names.queue)
	b = append(b, `,"partitions":[`...)
	for i := range parts {
		b = appendComma(b, i)
		b = append(b, '{')
		b = appendPartition(b, &parts[i])
		b = append(b, '}')
	}
	return ok(append(appendNext(append(b, ']'), next), '}')), nil
}

// appendNext says at which partition the next page begins; 0 is none.
func appendNext(b []byte, next int) []byte {
	b = append(b, `,"next":`...)
	if next == 0 {
		return append(b, "null"...)
	}
	return appendInt(b, int64(next))
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

func appendPartition(b []byte, p *queen.Partition) []byte {
	b = append(b, `"id":`...)
	b = appendPartitionID(b, p.ID)
	b = append(b, `,"number":`...)
	b = appendInt(b, int64(p.Number))
	b = append(b, `,"name":`...)
	b = appendString(b, p.Name)
	b = append(b, `,"logStartOffset":`...)
	b = appendInt(b, p.LogStart)
	b = append(b, `,"highWatermark":`...)
	return appendInt(b, p.LogEnd)
}

// allPartitions serves GET /api/v1/resources/partitions?queue=&limit=&offset=: the
// partitions of one queue or of all, by queue and number.
func (s *Server) allPartitions(x *exchange) (answer, error) {
	page, err := readPage(x.req.URL.RawQuery, "queue")
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	of, err := s.queuesNamed(ctx, page.filter)
	if err != nil {
		return answer{}, err
	}
	listed := 0
	b := []byte(`{"partitions":[`)
	for i := range of {
		name := of[i].Name
		from, count := page.span(of[i].Partitions)
		if count == 0 {
			continue
		}
		parts, _, err := s.engine.Partitions(ctx, name, from, count)
		if page.filter == "" && errors.Is(err, queen.ErrUnknownQueue) {
			continue // deleted since it was listed
		}
		if err != nil {
			return answer{}, err
		}
		for i := range parts {
			b = appendComma(b, listed)
			listed++
			b = append(b, `{"queue":`...)
			b = appendString(b, name)
			b = append(b, ',')
			b = appendPartition(b, &parts[i])
			b = append(b, '}')
		}
	}
	return page.end(b), nil
}

// queuesNamed is the queue of a name, or without one all queues, by name.
func (s *Server) queuesNamed(ctx context.Context, name string) ([]queen.Queue, error) {
	if name == "" {
		return s.engine.AllQueues(ctx)
	}
	got, err := s.engine.Queues(ctx, []queen.QueueRef{{Name: name}})
	if err != nil {
		return nil, err
	}
	return []queen.Queue{got[0].Queue}, got[0].Err
}

// depth serves GET /api/v1/resources/queues/{queue}/depth?group=&fromPartition=&limit=:
// what waits in each partition, and next, the number of the partition at which the next
// page begins. Without a group, what the group that is furthest behind owes. There is
// no conflation here, so the work is what is pending. The sums are of the page.
func (s *Server) depth(x *exchange) (answer, error) {
	var group *string
	var from, limit int
	err := eachParam(x.req.URL.RawQuery, func(name, v string) (err error) {
		switch name {
		case "group":
			v = groupOf(v)
			group = &v
		case "fromPartition":
			from, err = number(v, 0, math.MaxInt32)
		case "limit":
			limit, err = number(v, 1, queen.LagPageMax)
		default:
			err = noSuchParam()
		}
		return err
	})
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	got, next, err := s.engine.Depth(ctx, x.names.queue, group, from, limit)
	if err != nil {
		return answer{}, err
	}
	var pending, behind int64
	for i := range got {
		pending += got[i].Pending
		if got[i].Pending > 0 {
			behind++
		}
	}
	b := []byte(`{"queue":`)
	b = appendString(b, x.names.queue)
	b = append(b, `,"group":`...)
	if group == nil {
		b = append(b, "null"...)
	} else {
		b = appendGroup(b, *group)
	}
	b = append(b, `,"pending":`...)
	b = appendInt(b, pending)
	b = append(b, `,"partitionsPending":`...)
	b = appendInt(b, behind)
	b = append(b, `,"conflation":false,"effectivePending":`...)
	b = appendInt(b, pending)
	b = append(b, `,"partitions":[`...)
	for i := range got {
		b = appendComma(b, i)
		b = append(b, `{"partition":`...)
		b = appendString(b, got[i].Partition)
		b = append(b, `,"pending":`...)
		b = append(appendInt(b, got[i].Pending), '}')
	}
	return ok(append(appendNext(append(b, ']'), next), '}')), nil
}
