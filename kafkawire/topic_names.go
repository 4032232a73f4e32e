package kafkawire

import (
	"context"
	"sync"

	"queenmq/queen"
)

// topicNameMax is Kafka's bound on a topic name.
const topicNameMax = 249

// legalTopic says whether a name is one that Kafka's clients accept. Queues
// with other names exist for the native API and are hidden here.
func legalTopic(name string) bool {
	if name == "" || len(name) > topicNameMax || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return true
}

// listed are the queues that Kafka clients see when they ask for all topics.
func (s *Server) listed(ctx context.Context) ([]queen.QueueAnswer, error) {
	all, err := s.engine.AllQueues(ctx)
	if err != nil {
		return nil, err
	}
	seen := make([]queen.QueueAnswer, 0, len(all))
	for _, q := range all {
		if legalTopic(q.Name) {
			seen = append(seen, queen.QueueAnswer{Queue: q})
		} else if s.hidden.add(q.Name) {
			s.log.Info("a queue is hidden from Kafka clients: its name is no legal topic name", "queue", q.Name)
		}
	}
	return seen, nil
}

// hiddenMax bounds the names remembered as logged; further ones are not logged.
const hiddenMax = 1000

// hiddenNames remembers which hidden queues were logged.
type hiddenNames struct {
	mu    sync.Mutex
	names map[string]struct{}
}

// add says whether name is to be logged: the first time it is met.
func (h *hiddenNames) add(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.names[name]; ok || len(h.names) >= hiddenMax {
		return false
	}
	if h.names == nil {
		h.names = make(map[string]struct{})
	}
	h.names[name] = struct{}{}
	return true
}
