package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// createTopics answers CreateTopics (19) v0–7. Any replication factor is
// accepted and reported as 1: PostgreSQL replicates. A manual assignment must
// name live brokers; it is checked and then only its count matters. Configs are
// those of topic_configs.go.
func (c *conn) createTopics(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.CreateTopicsRequest)
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()

	times := make(map[string]int)
	for _, t := range req.Topics {
		times[t.Topic]++
	}
	taken := &takenNames{srv: c.srv}
	for _, t := range req.Topics {
		if times[t.Topic] == 0 {
			continue // the second of two: one answer for both
		}
		rt := kmsg.NewCreateTopicsResponseTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = t.Topic, -1, -1
		rt.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		q, err := c.createTopic(ctx, req, t, times[t.Topic] > 1, taken)
		times[t.Topic] = 0
		if err == nil {
			rt.TopicID, rt.NumPartitions, rt.ReplicationFactor = q.TopicID, int32(q.Partitions), 1
			rt.Configs = createdConfigs(&q.Options)
		} else {
			rt.ErrorCode, rt.ErrorMessage = codeOf(c.note(r, err)), message(err)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}

func (c *conn) createTopic(ctx context.Context, req *kmsg.CreateTopicsRequest, t kmsg.CreateTopicsRequestTopic, repeated bool, taken *takenNames) (queen.Queue, error) {
	none := queen.Queue{}
	if repeated {
		return none, fmt.Errorf("%w: the request names topic %q more than once", queen.ErrInvalidRequest, t.Topic)
	}
	if !legalTopic(t.Topic) {
		return none, fmt.Errorf("%w: a topic name has 1 to %d letters, digits, '.', '_' and '-', and is not '.' or '..'", queen.ErrInvalidName, topicNameMax)
	}
	n, err := c.partitionCount(t)
	if err != nil {
		return none, err
	}
	options, err := topicOptions(t.Configs)
	if err != nil {
		return none, err
	}
	if err := taken.collides(ctx, t.Topic); err != nil {
		return none, err
	}
	return c.srv.engine.CreateQueue(ctx, queen.NewQueue{
		Name: t.Topic, Partitions: n, Validate: req.ValidateOnly, Options: options,
	})
}

// partitionCount is how many partitions a topic is asked to have.
func (c *conn) partitionCount(t kmsg.CreateTopicsRequestTopic) (int, error) {
	n := int(t.NumPartitions)
	switch {
	case len(t.ReplicaAssignment) > 0:
		if t.NumPartitions != -1 || t.ReplicationFactor != -1 {
			return 0, fmt.Errorf("%w: both an assignment and counts for topic %q", queen.ErrInvalidRequest, t.Topic)
		}
		if err := c.checkAssignment(t.ReplicaAssignment); err != nil {
			return 0, err
		}
		n = len(t.ReplicaAssignment)
	case t.ReplicationFactor == 0 || t.ReplicationFactor < -1:
		return 0, errReplicationFactor
	case n == -1:
		n = c.srv.cfg.DefaultPartitions
	}
	if n < 1 || n > c.srv.cfg.PartitionsMax {
		return 0, fmt.Errorf("%w: %d, must be between 1 and %d", queen.ErrInvalidPartitions, n, c.srv.cfg.PartitionsMax)
	}
	return n, nil
}

func (c *conn) checkAssignment(as []kmsg.CreateTopicsRequestTopicReplicaAssignment) error {
	live := brokers(c.srv.engine.Cluster())
	seen := make(map[int32]bool, len(as))
	for _, a := range as {
		if a.Partition < 0 || int(a.Partition) >= len(as) || seen[a.Partition] {
			return fmt.Errorf("%w: partitions must be 0 to %d, each once", errAssignment, len(as)-1)
		}
		seen[a.Partition] = true
		if len(a.Replicas) == 0 || len(a.Replicas) > len(live) {
			return fmt.Errorf("%w: partition %d has %d replicas, %d brokers are live", errAssignment, a.Partition, len(a.Replicas), len(live))
		}
		if err := checkBrokers(a.Replicas, live); err != nil {
			return fmt.Errorf("%w: partition %d: %w", errAssignment, a.Partition, err)
		}
	}
	return nil
}

// checkBrokers wants live brokers, each named once.
func checkBrokers(replicas []int32, live []queen.Broker) error {
	for i, id := range replicas {
		switch {
		case slices.Contains(replicas[:i], id):
			return fmt.Errorf("broker %d is named twice", id)
		case !slices.ContainsFunc(live, func(b queen.Broker) bool { return b.ID == id }):
			return fmt.Errorf("broker %d is not live", id)
		}
	}
	return nil
}

// deleteTopics answers DeleteTopics (20) v0–6, by name or, from v6, by id. A
// queue hidden from Kafka cannot be deleted from here.
func (c *conn) deleteTopics(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()

	topics := req.Topics
	if req.Version < 6 {
		topics = nil
		for _, name := range req.TopicNames {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = &name
			topics = append(topics, t)
		}
	}
	// What is named more than once is refused, and answered once.
	named := make(map[queen.QueueRef]int)
	refOf := func(t kmsg.DeleteTopicsRequestTopic) queen.QueueRef {
		ref := queen.QueueRef{TopicID: t.TopicID}
		if t.Topic != nil {
			ref.Name = *t.Topic
		}
		return ref
	}
	for _, t := range topics {
		named[refOf(t)]++
	}
	for _, t := range topics {
		ref := refOf(t)
		times := named[ref]
		if times == 0 {
			continue
		}
		delete(named, ref)
		rt := kmsg.NewDeleteTopicsResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		q, err := c.deleteTopic(ctx, ref, times)
		if err != nil {
			rt.ErrorCode, rt.ErrorMessage = codeOf(c.note(r, err)), message(err)
		} else {
			rt.Topic, rt.TopicID = &q.Name, q.TopicID
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}

func (c *conn) deleteTopic(ctx context.Context, ref queen.QueueRef, times int) (queen.Queue, error) {
	byID := ref.TopicID != uuid.Nil
	switch {
	case byID == (ref.Name != ""):
		return queen.Queue{}, fmt.Errorf("%w: a topic is named either by name or by id", queen.ErrInvalidRequest)
	case times > 1:
		return queen.Queue{}, fmt.Errorf("%w: the request names a topic more than once", queen.ErrInvalidRequest)
	case !byID && !legalTopic(ref.Name):
		return queen.Queue{}, queen.ErrUnknownQueue
	}
	return c.srv.engine.DeleteQueue(ctx, ref)
}

// within bounds a request by the time its client names.
func within(ctx context.Context, millis int32) (context.Context, context.CancelFunc) {
	if millis <= 0 {
		millis = 30_000
	}
	return context.WithTimeoutCause(ctx, time.Duration(millis)*time.Millisecond, queen.ErrTimedOut)
}

// takenNames knows the names that exist, asked for once and only when needed:
// Kafka refuses names that differ from another only in '.' and '_', because
// they collide as names of metrics.
type takenNames struct {
	srv    *Server
	folded map[string]string
}

func (t *takenNames) collides(ctx context.Context, name string) error {
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	if t.folded == nil {
		queues, err := t.srv.engine.AllQueues(ctx)
		if err != nil {
			return err
		}
		t.folded = make(map[string]string)
		for _, q := range queues {
			if legalTopic(q.Name) {
				t.folded[fold(q.Name)] = q.Name
			}
		}
	}
	if other, ok := t.folded[fold(name)]; ok && other != name {
		return fmt.Errorf("%w: topic %q collides with existing topic %q", queen.ErrInvalidName, name, other)
	}
	t.folded[fold(name)] = name
	return nil
}

func fold(name string) string { return strings.ReplaceAll(name, ".", "_") }

// autoCreate makes a topic that a Metadata request asked for. Requests for one
// name that meet here wait for the first of them.
func (s *Server) autoCreate(ctx context.Context, name string) (queen.Queue, error) {
	f, first := s.creations.join(name)
	if !first {
		select {
		case <-f.done:
			return f.queue, f.err
		case <-ctx.Done():
			return queen.Queue{}, context.Cause(ctx)
		}
	}
	defer s.creations.leave(name, f)
	f.err = queen.ErrUnavailable // what the others see should this panic
	f.queue, f.err = s.create(ctx, name)
	return f.queue, f.err
}

func (s *Server) create(ctx context.Context, name string) (queen.Queue, error) {
	if err := (&takenNames{srv: s}).collides(ctx, name); err != nil {
		return queen.Queue{}, err
	}
	q, err := s.engine.CreateQueue(ctx, queen.NewQueue{
		Name: name, Partitions: s.cfg.DefaultPartitions, Options: queen.TopicOptions(),
	})
	if errors.Is(err, queen.ErrQueueExists) { // another broker was faster
		var found []queen.QueueAnswer
		if found, err = s.engine.Queues(ctx, []queen.QueueRef{{Name: name}}); err == nil {
			return found[0].Queue, found[0].Err
		}
	}
	return q, err
}

// creations are the automatic creations under way, by name; never more than
// there are connections.
type creations struct {
	mu sync.Mutex
	m  map[string]*creation
}

type creation struct {
	done  chan struct{}
	queue queen.Queue // set before done is closed
	err   error
}

func (c *creations) join(name string) (f *creation, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f = c.m[name]; f != nil {
		return f, false
	}
	f = &creation{done: make(chan struct{})}
	if c.m == nil {
		c.m = make(map[string]*creation)
	}
	c.m[name] = f
	return f, true
}

func (c *creations) leave(name string, f *creation) {
	c.mu.Lock()
	delete(c.m, name)
	c.mu.Unlock()
	close(f.done)
}
