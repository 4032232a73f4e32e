package kafkawire

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// logDir stands for the database, which every broker keeps its logs in. How much
// room it has left is not known here.
const logDir = "postgresql"

// describeLogDirs answers DescribeLogDirs (35) v1–5. A broker tells of the
// partitions that it leads, so that who asks all of them counts each once; the sizes are
// of what is kept, as served. Null asks for all topics; what is not there is left out.
func (c *conn) describeLogDirs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = logDir
	err := c.sizes(ctx, req, &dir)
	if err != nil {
		dir.ErrorCode, dir.Topics = codeOf(c.note(r, err)), nil
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp, nil
}

// sizes fills in the partitions asked for, by topic.
func (c *conn) sizes(ctx context.Context, req *kmsg.DescribeLogDirsRequest, dir *kmsg.DescribeLogDirsResponseDir) error {
	led, err := c.led(ctx, req)
	if err != nil || len(led) == 0 {
		return err
	}
	refs := make([]queen.PartitionRef, len(led))
	for i, l := range led {
		refs[i] = queen.PartitionRef{Queue: queen.QueueRef{TopicID: l.queue.TopicID}, Number: l.number}
	}
	sizes, err := c.srv.engine.Sizes(ctx, refs)
	if err != nil {
		return err
	}
	for i, l := range led {
		n := len(dir.Topics)
		if n == 0 || dir.Topics[n-1].Topic != l.queue.Name {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = l.queue.Name
			dir.Topics = append(dir.Topics, t)
			n++
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = l.number, sizes[i].Size // 0 of what is gone by now
		dir.Topics[n-1].Partitions = append(dir.Topics[n-1].Partitions, p)
	}
	return nil
}

// ledPartition is a partition that this broker leads.
type ledPartition struct {
	queue  queen.Queue
	number int32
}

// led lists those of the partitions asked for that this broker leads, topic by topic, each
// once however often it was named.
func (c *conn) led(ctx context.Context, req *kmsg.DescribeLogDirsRequest) (led []ledPartition, err error) {
	cl := c.srv.engine.Cluster()
	live := brokers(cl)
	add := func(q queen.Queue, number int32) {
		if q.Partitions <= c.srv.cfg.PartitionsMax && leader(q.TopicID, number, live) == cl.Self {
			led = append(led, ledPartition{q, number})
		}
	}
	if req.Topics == nil {
		all, err := c.srv.listed(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			for n := range int32(min(a.Queue.Partitions, c.srv.cfg.PartitionsMax)) {
				add(a.Queue, n)
			}
		}
		return led, nil
	}
	var names []queen.QueueRef
	wanted := make(map[string][]int32)
	for _, t := range req.Topics {
		if !legalTopic(t.Topic) {
			continue
		}
		if _, again := wanted[t.Topic]; !again {
			names = append(names, queen.QueueRef{Name: t.Topic})
		}
		wanted[t.Topic] = append(wanted[t.Topic], t.Partitions...)
	}
	found, err := c.srv.engine.Queues(ctx, names)
	if err != nil {
		return nil, err
	}
	for i, a := range found {
		if a.Err != nil {
			continue
		}
		numbers := wanted[names[i].Name]
		slices.Sort(numbers)
		for _, n := range slices.Compact(numbers) {
			if n >= 0 && int(n) < a.Queue.Partitions {
				add(a.Queue, n)
			}
		}
	}
	return led, nil
}
