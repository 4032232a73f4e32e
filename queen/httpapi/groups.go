package httpapi

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"queenmq/queen"
)

// listGroups serves GET /api/v1/consumer-groups?search=&limit=&offset=: an array, a line
// per group and queue, of groups whose name has search in it.
func (s *Server) listGroups(x *exchange) (answer, error) {
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
	return counted(c, append(page.groups([]byte("["), c.Groups), ']')), nil
}

// groups are those of the page.
func (p *listPage) groups(b []byte, all []queen.GroupLag) []byte {
	for i := range all {
		if !strings.Contains(cmp.Or(all[i].Group, noGroup), p.filter) {
			continue
		}
		var here bool
		if b, here = p.next(b); here {
			b = appendGroupLag(b, &all[i])
		}
	}
	return b
}

func appendGroupLag(b []byte, g *queen.GroupLag) []byte {
	b = append(b, `{"name":`...)
	b = appendGroup(b, g.Group)
	b = append(b, `,"queueName":`...)
	b = appendString(b, g.Queue)
	b = append(b, `,"topics":[`...)
	b = appendString(b, g.Queue)
	b = append(b, `],"partitions":`...)
	b = appendInt(b, int64(g.Partitions))
	b = append(b, `,"positions":`...)
	b = appendInt(b, int64(g.Positions))
	b = append(b, `,"leases":`...)
	b = appendInt(b, int64(g.Leases))
	b = append(b, `,"partitionsWithLag":`...)
	b = appendInt(b, int64(g.Behind))
	b = append(b, `,"totalLag":`...)
	b = appendInt(b, g.Pending)
	b = append(b, `,"maxTimeLag":`...)
	b = appendInt(b, seconds(g.OldestAge))
	b = append(b, `,"oldestUnconsumedAt":`...)
	b = appendTimeOrNull(b, g.OldestAt)
	b = append(b, `,"committedAt":`...)
	b = appendTimeOrNull(b, g.CommittedAt)
	return append(b, '}')
}

// seconds are whole ones: a lag of half a second is 0. The clock may have been
// set back since; nothing is newer than now.
func seconds(d time.Duration) int64 { return max(int64(d/time.Second), 0) }

func appendTimeOrNull(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	return appendTime(b, t)
}

// describeGroup serves GET /api/v1/consumer-groups/{group}?queue=&fromQueue=
// &fromPartition=&limit=: what the group owes in each partition of its queues, or of one;
// next says where the next page begins.
func (s *Server) describeGroup(x *exchange) (answer, error) {
	q := queen.PositionsQuery{Group: x.names.group}
	err := eachParam(x.req.URL.RawQuery, func(name, v string) (err error) {
		switch name {
		case "queue":
			q.Queue = v
		case "fromQueue":
			q.FromQueue = v
		case "fromPartition":
			q.From, err = number(v, 0, math.MaxInt32)
		case "limit":
			q.Limit, err = number(v, 1, queen.LagPageMax)
		default:
			err = noSuchParam()
		}
		return err
	})
	if err == nil && q.From > 0 && q.FromQueue == "" && q.Queue == "" {
		err = badRequest("invalid_request", "fromPartition: needs the queue whose partition it is")
	}
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	page, err := s.engine.GroupPositions(ctx, q)
	if err != nil {
		return answer{}, err
	}
	all := page.Partitions
	if len(all) == 0 && q.FromQueue == "" && q.From == 0 {
		return answer{}, unknownGroup(x.names.group)
	}
	b := []byte(`{"name":`)
	b = appendGroup(b, x.names.group)
	b = append(b, `,"queues":[`...)
	for first := 0; first < len(all); {
		next := first + slices.IndexFunc(all[first:], func(p queen.PartitionLag) bool { return p.Queue != all[first].Queue })
		if next < first {
			next = len(all)
		}
		b = appendComma(b, first)
		b = appendGroupQueue(b, all[first:next])
		first = next
	}
	b = append(b, `],"next":`...)
	if !page.More {
		return ok(append(b, "null}"...)), nil
	}
	b = append(b, `{"fromQueue":`...)
	b = appendString(b, page.NextQueue)
	b = append(b, `,"fromPartition":`...)
	return ok(append(appendInt(b, int64(page.Next)), "}}"...)), nil
}

func unknownGroup(group string) error {
	if group == "" {
		group = noGroup
	}
	return fmt.Errorf("%w: %q has no position in any queue", queen.ErrUnknownGroup, group)
}

// appendGroupQueue appends what a group owes in one queue.
func appendGroupQueue(b []byte, parts []queen.PartitionLag) []byte {
	var pending, oldest int64
	for i := range parts {
		pending += parts[i].Pending
		oldest = max(oldest, seconds(parts[i].OldestAge))
	}
	b = append(b, `{"queueName":`...)
	b = appendString(b, parts[0].Queue)
	b = append(b, `,"totalLag":`...)
	b = appendInt(b, pending)
	b = append(b, `,"maxTimeLag":`...)
	b = appendInt(b, oldest)
	b = append(b, `,"partitions":[`...)
	for i := range parts {
		p := &parts[i]
		b = appendComma(b, i)
		b = append(b, `{"partition":`...)
		b = appendString(b, p.Partition)
		b = append(b, `,"partitionId":`...)
		b = appendPartitionID(b, p.PartitionID)
		b = append(b, `,"number":`...)
		b = appendInt(b, int64(p.Number))
		b = append(b, `,"offset":`...)
		if p.Known {
			b = appendInt(b, p.Position)
		} else {
			b = append(b, "null"...)
		}
		b = append(b, `,"lag":`...)
		b = appendInt(b, p.Pending)
		b = append(b, `,"timeLag":`...)
		b = appendInt(b, seconds(p.OldestAge))
		b = append(b, `,"logStartOffset":`...)
		b = appendInt(b, p.LogStart)
		b = append(b, `,"highWatermark":`...)
		b = appendInt(b, p.LogEnd)
		b = append(b, `,"oldestUnconsumedAt":`...)
		b = appendTimeOrNull(b, p.OldestAt)
		b = append(b, `,"committedAt":`...)
		b = appendTimeOrNull(b, p.CommittedAt)
		b = append(b, `,"leaseExpiresAt":`...)
		b = appendTimeOrNull(b, p.LeaseUntil)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// lagging serves GET /api/v1/consumer-groups/lagging?minLagSeconds=: an array of the
// partitions in which a group has owed something for so long, the longest first.
// The names of its members are those of the original.
func (s *Server) lagging(x *exchange) (answer, error) {
	least := 60
	err := eachParam(x.req.URL.RawQuery, func(name, v string) (err error) {
		if name != "minLagSeconds" {
			return noSuchParam()
		}
		least, err = number(v, 0, math.MaxInt32)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	all, at, err := s.engine.Lagging(ctx, time.Duration(least)*time.Second)
	if err != nil {
		return answer{}, err
	}
	b := []byte("[")
	for i := range all {
		p := &all[i]
		b = appendComma(b, i)
		b = append(b, `{"consumer_group":`...)
		b = appendGroup(b, p.Group)
		b = append(b, `,"queue_name":`...)
		b = appendString(b, p.Queue)
		b = append(b, `,"partition_name":`...)
		b = appendString(b, p.Partition)
		b = append(b, `,"partition_id":`...)
		b = appendPartitionID(b, p.PartitionID)
		b = append(b, `,"offset_lag":`...)
		b = appendInt(b, p.Pending)
		b = append(b, `,"time_lag_seconds":`...)
		b = appendInt(b, seconds(p.OldestAge))
		b = append(b, `,"oldest_unconsumed_at":`...)
		b = appendTimeOrNull(b, p.OldestAt)
		b = append(b, `,"last_consumed_at":`...)
		b = appendTimeOrNull(b, p.CommittedAt)
		b = append(b, '}')
	}
	a := ok(append(b, ']'))
	a.at = at
	return a, nil
}

// deleteGroup serves DELETE /api/v1/consumer-groups/{group}[/queues/{queue}]
// ?deleteMetadata=: the group's positions, and what it subscribed to unless
// deleteMetadata is false. A group that holds a lease is not deleted.
func (s *Server) deleteGroup(x *exchange) (answer, error) {
	subscriptions := true
	err := eachParam(x.req.URL.RawQuery, func(name, v string) (err error) {
		if name != "deleteMetadata" {
			return noSuchParam()
		}
		subscriptions, err = truth(v)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := x.context()
	defer cancel()
	if err := s.engine.DeleteGroupFrom(ctx, x.names.group, x.names.queue, subscriptions); err != nil {
		return answer{}, err
	}
	b := []byte(`{"success":true,"deleted":true,"consumerGroup":`)
	b = appendGroup(b, x.names.group)
	if x.names.queue != "" {
		b = append(b, `,"queue":`...)
		b = appendString(b, x.names.queue)
	}
	return ok(append(b, '}')), nil
}

// oneTarget is what a seek must have exactly one of.
const oneTarget = "toEnd, toStart, timestamp or offset"

// seekGroup serves POST /api/v1/consumer-groups/{group}/queues/{queue}/seek
// {"toEnd":true | "toStart":true | "timestamp":"…" | "offset":N, "partition"?}: the
// group goes there in every partition, or in the one named. An offset is one of a
// partition, so it needs the name.
func (s *Server) seekGroup(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	var to queen.SeekTo
	var partition string
	seen, targets := make(map[string]bool), 0
	err = r.object(func(member []byte) error {
		name := string(member)
		if seen[name] {
			return repeated()
		}
		seen[name] = true
		if name == "partition" {
			var err error
			partition, err = r.optional()
			return err
		}
		if r.null() { // as if left out
			if name == "toEnd" || name == "toStart" || name == "timestamp" || name == "offset" {
				return nil
			}
			return refuse("unknown_field", notKnown)
		}
		targets++
		return seekMember(r, name, &to)
	})
	if err == nil {
		err = r.end()
	}
	switch {
	case err != nil:
		return answer{}, err
	case targets != 1:
		return answer{}, badRequest("invalid_request", "a seek has exactly one of "+oneTarget)
	case to.Offset != nil && partition == "":
		return answer{}, badRequest("invalid_request", "offset: needs the partition whose offset it is")
	}
	ctx, cancel := x.context()
	defer cancel()
	got, err := s.engine.Seek(ctx, x.names.group, x.names.queue, partition, to)
	if err != nil {
		return answer{}, err
	}
	b := []byte(`{"success":true,"consumerGroup":`)
	b = appendGroup(b, x.names.group)
	b = append(b, `,"queue":`...)
	b = appendString(b, x.names.queue)
	b = append(b, `,"partitions":[`...)
	for i := range got {
		b = appendComma(b, i)
		b = append(b, `{"partition":`...)
		b = appendString(b, got[i].Partition)
		b = append(b, `,"partitionId":`...)
		b = appendPartitionID(b, got[i].PartitionID)
		b = append(b, `,"number":`...)
		b = appendInt(b, int64(got[i].Number))
		b = append(b, `,"offset":`...)
		b = appendInt(b, got[i].Offset)
		b = append(b, '}')
	}
	return ok(append(b, "]}"...)), nil
}

func seekMember(r *reader, name string, to *queen.SeekTo) error {
	switch name {
	case "toEnd", "toStart":
		yes, err := r.boolean()
		if err == nil && !yes {
			err = refuse("", "can only be true; leave it out otherwise")
		}
		if name == "toEnd" {
			to.End = true
		} else {
			to.Start = true
		}
		return err
	case "timestamp":
		v, err := r.str()
		if err != nil {
			return err
		}
		to.Time, err = timeOf(string(v))
		return err
	case "offset":
		n, err := r.integer(0, math.MaxInt64)
		to.Offset = &n
		return err
	}
	return unknownName(r)
}

// timeOf reads an RFC 3339 time.
func timeOf(v string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return t, refuse("", "must be a time such as 2026-01-02T03:04:05Z")
	}
	return t, nil
}

// setSubscription serves POST /api/v1/consumer-groups/{group}/subscription
// {"subscriptionTimestamp":"…"}: where the group begins in partitions that it has no
// position in.
func (s *Server) setSubscription(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	var at time.Time
	seen := false
	err = r.object(func(name []byte) error {
		if string(name) != "subscriptionTimestamp" {
			return unknownName(r)
		}
		if seen {
			return repeated()
		}
		seen = true
		v, err := r.str()
		if err == nil {
			at, err = timeOf(string(v))
		}
		return err
	})
	if err == nil {
		err = r.end()
	}
	switch {
	case err != nil:
		return answer{}, err
	case !seen:
		return answer{}, badRequest("invalid_request", "subscriptionTimestamp is missing")
	}
	ctx, cancel := x.context()
	defer cancel()
	if err := s.engine.SetSubscription(ctx, x.names.group, at); err != nil {
		return answer{}, err
	}
	b := []byte(`{"success":true,"consumerGroup":`)
	b = appendGroup(b, x.names.group)
	b = append(b, `,"subscriptionTimestamp":`...)
	return ok(append(appendTime(b, at), '}')), nil
}
