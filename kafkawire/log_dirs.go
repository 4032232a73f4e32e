package kafkawire

import (
	"context"

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

func (c *conn) sizes(ctx context.Context, req *kmsg.DescribeLogDirsRequest, dir *kmsg.DescribeLogDirsResponseDir) error {
	cl := c.srv.engine.Cluster()
	live := brokers(cl)
	var refs []queen.PartitionRef
	var at [][2]int
	add := func(q queen.Queue, number int32) {
		n := len(dir.Topics)
		if n == 0 || dir.Topics[n-1].Topic != q.Name {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = q.Name
			dir.Topics = append(dir.Topics, t)
			n++
		}
		t := &dir.Topics[n-1]
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition = number
		t.Partitions = append(t.Partitions, p)
		refs = append(refs, queen.PartitionRef{Queue: queen.QueueRef{TopicID: q.TopicID}, Number: number})
		at = append(at, [2]int{n - 1, len(t.Partitions) - 1})
	}
	mine := func(q queen.Queue, number int32) bool {
		return q.Partitions <= c.srv.cfg.PartitionsMax && leader(q.TopicID, number, live) == cl.Self
	}
	if req.Topics == nil {
		all, err := c.srv.listed(ctx)
		if err != nil {
			return err
		}
		for _, a := range all {
			for n := range int32(min(a.Queue.Partitions, c.srv.cfg.PartitionsMax)) {
				if mine(a.Queue, n) {
					add(a.Queue, n)
				}
			}
		}
	} else {
		var names []queen.QueueRef
		var wanted [][]int32
		for _, t := range req.Topics {
			if legalTopic(t.Topic) {
				names, wanted = append(names, queen.QueueRef{Name: t.Topic}), append(wanted, t.Partitions)
			}
		}
		found, err := c.srv.engine.Queues(ctx, names)
		if err != nil {
			return err
		}
		for i, a := range found {
			for _, n := range wanted[i] {
				if a.Err == nil && n >= 0 && int(n) < a.Queue.Partitions && mine(a.Queue, n) {
					add(a.Queue, n)
				}
			}
		}
	}
	if len(refs) == 0 {
		return nil
	}
	sizes, err := c.srv.engine.Sizes(ctx, refs)
	if err != nil {
		return err
	}
	for k, s := range sizes {
		dir.Topics[at[k][0]].Partitions[at[k][1]].Size = s.Size // 0 of what is gone by now
	}
	return nil
}
