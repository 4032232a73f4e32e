package httpapi

import (
	"maps"
	"slices"
	"strings"
	"time"

	"queenmq/queen"
)

// counted is an answer from a count, with its age in seconds.
func counted(c *queen.Count, body []byte) answer {
	a := ok(body)
	a.at = c.At
	return a
}

// overview serves GET /api/v1/resources/overview and /api/v1/status: what there is,
// counted in the database; where that takes long, some time ago (Age).
func (s *Server) overview(x *exchange) (answer, error) {
	ctx, cancel := x.context()
	defer cancel()
	all, err := s.engine.AllQueues(ctx)
	if err != nil {
		return answer{}, err
	}
	c, err := s.engine.Count(ctx)
	if err != nil {
		return answer{}, err
	}
	totals, groups := c.Queues, c.Groups
	var partitions, messages, pending int64
	for i := range totals {
		partitions += int64(totals[i].Partitions)
		messages += totals[i].Messages
		pending += totals[i].Pending
	}
	names := make(map[string]bool)
	for i := range groups {
		names[groups[i].Group] = true
	}
	b := []byte(`{"queues":`)
	b = appendInt(b, int64(len(totals)))
	b = append(b, `,"partitions":`...)
	b = appendInt(b, partitions)
	b = append(b, `,"namespaces":`...)
	b = appendInt(b, int64(len(labels(all, namespaceOf))))
	b = append(b, `,"tasks":`...)
	b = appendInt(b, int64(len(labels(all, taskOf))))
	b = append(b, `,"consumerGroups":`...)
	b = appendInt(b, int64(len(names)))
	b = append(b, `,"totalMessages":`...)
	b = appendInt(b, messages)
	b = append(b, `,"pendingMessages":`...)
	b = appendInt(b, pending)
	b = append(b, `,"serverVersion":`...)
	b = appendString(b, s.cfg.Version)
	b = append(b, `,"uptime":`...)
	b = appendInt(b, int64(time.Since(s.started).Seconds()))
	return counted(c, append(b, '}')), nil
}

func namespaceOf(o *queen.QueueOptions) string { return o.Namespace }
func taskOf(o *queen.QueueOptions) string      { return o.Task }

// label counts what carries one.
type label struct{ queues, partitions int64 }

func labels(all []queen.Queue, of func(*queen.QueueOptions) string) map[string]label {
	found := make(map[string]label)
	for i := range all {
		if name := of(&all[i].Options); name != "" {
			l := found[name]
			l.queues++
			l.partitions += int64(all[i].Partitions)
			found[name] = l
		}
	}
	return found
}

// namespaces serves GET /api/v1/resources/namespaces?search=&limit=&offset=, by name.
func (s *Server) namespaces(x *exchange) (answer, error) {
	return s.labelled(x, "namespace", namespaceOf)
}

// tasks serves GET /api/v1/resources/tasks?search=&limit=&offset=, by name.
func (s *Server) tasks(x *exchange) (answer, error) { return s.labelled(x, "task", taskOf) }

func (s *Server) labelled(x *exchange, what string, of func(*queen.QueueOptions) string) (answer, error) {
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
	found := labels(all, of)
	b := []byte(`{"` + what + `s":[`)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !strings.Contains(name, page.filter) {
			continue
		}
		var here bool
		if b, here = page.next(b); !here {
			continue
		}
		b = append(b, `{"`+what+`":`...)
		b = appendString(b, name)
		b = append(b, `,"queues":`...)
		b = appendInt(b, found[name].queues)
		b = append(b, `,"partitions":`...)
		b = appendInt(b, found[name].partitions)
		b = append(b, '}')
	}
	return page.end(b), nil
}

// queueTotals serves GET /api/v1/status/queues?search=&limit=&offset=, by name.
func (s *Server) queueTotals(x *exchange) (answer, error) {
	page, err := readPage(x.req.URL.RawQuery, "search")
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	c, err := s.engine.Count(ctx)
	if err != nil {
		return answer{}, err
	}
	totals := c.Queues
	b := []byte(`{"queues":[`)
	for i := range totals {
		if !strings.Contains(totals[i].Queue, page.filter) {
			continue
		}
		var here bool
		if b, here = page.next(b); !here {
			continue
		}
		b = append(b, '{')
		b = appendTotals(b, &totals[i])
		b = append(b, '}')
	}
	a := page.end(b)
	a.at = c.At
	return a, nil
}

func appendTotals(b []byte, t *queen.QueueTotals) []byte {
	b = append(b, `"name":`...)
	b = appendString(b, t.Queue)
	b = append(b, `,"partitions":`...)
	b = appendInt(b, int64(t.Partitions))
	b = append(b, `,"consumerGroups":`...)
	b = appendInt(b, int64(t.Groups))
	b = append(b, `,"totalMessages":`...)
	b = appendInt(b, t.Messages)
	b = append(b, `,"pendingMessages":`...)
	return appendInt(b, t.Pending)
}

// queueStatus serves GET /api/v1/status/queues/{queue}?search=&limit=&offset=: its
// totals, and the groups that read it, of which consumerGroups says how many there are.
func (s *Server) queueStatus(x *exchange) (answer, error) {
	page, err := readPage(x.req.URL.RawQuery, "search")
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	c, err := s.engine.CountQueue(ctx, x.names.queue)
	if err != nil {
		return answer{}, err
	}
	b := []byte("{")
	b = appendTotals(b, &c.Queues[0])
	b = append(b, `,"groups":[`...)
	b = page.groups(b, c.Groups)
	return counted(c, append(b, "]}"...)), nil
}

// refresh serves POST /api/v1/stats/refresh, which has nothing to do: what this
// door answers is counted when it is asked for, as often as that may be.
func (s *Server) refresh(x *exchange) (answer, error) {
	if err := x.noMembers(); err != nil {
		return answer{}, err
	}
	return ok([]byte(`{"success":true}`)), nil
}
