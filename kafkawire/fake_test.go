package kafkawire

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

// fake is a small honest engine: a map and a mutex. Time, ids and the cluster
// are fixed, so that replies are the same in every run.
type fake struct {
	cluster queen.Cluster

	mu        sync.Mutex
	groups    coordination
	seen      map[string]time.Time // groups that had members
	changed   chan struct{}        // closed and replaced at every append
	queues    map[string]*fakeQueue
	lastID    int64
	version   int64
	producers int64
	cursors   map[string]map[string]queen.Cursor // group, then queue id and partition number
	fail      error                              // what every call answers while set
	created   int                                // queues ever created
	reads     int                                // calls of Read
	held      []func()                           // appends waiting for release, while hold is set
	hold      bool
	batches   [][]byte          // of the appends held back, as they were handed over
	contexts  []context.Context // of the appends, where a test made it
}

type fakeQueue struct {
	queen.Queue
	logs []*fakeLog
}

func newFake() *fake {
	return &fake{
		cluster: queen.Cluster{
			ID: "AAAAAAAAAAAAAAAAAAAAAA", Self: 1, Epoch: 7,
			Brokers: []queen.Broker{{ID: 1, Host: "queen.test", Port: 9092}},
		},
		groups:  coordination{broker: 1, epoch: 1},
		seen:    make(map[string]time.Time),
		changed: make(chan struct{}),
		queues:  make(map[string]*fakeQueue),
		cursors: make(map[string]map[string]queen.Cursor),
	}
}

// topic makes a queue for a test.
func (f *fake) topic(name string, partitions int) queen.Queue {
	q, err := f.CreateQueue(context.Background(), queen.NewQueue{Name: name, Partitions: partitions, Options: queen.TopicOptions()})
	if err != nil {
		panic(err)
	}
	return q
}

func (f *fake) setFail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *fake) Cluster() queen.Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cluster
}

// setBrokers changes who lives.
func (f *fake) setBrokers(bs ...queen.Broker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cluster.Brokers = bs
}

func (f *fake) Queues(ctx context.Context, refs []queen.QueueRef) ([]queen.QueueAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	as := make([]queen.QueueAnswer, len(refs))
	for i, r := range refs {
		q, err := f.find(r)
		as[i].Err = err
		if err == nil {
			as[i].Queue = q.Queue
		}
	}
	return as, nil
}

func (f *fake) find(r queen.QueueRef) (*fakeQueue, error) {
	if r.Name != "" {
		if q := f.queues[r.Name]; q != nil {
			return q, nil
		}
		return nil, fmt.Errorf("%w: %q", queen.ErrUnknownQueue, r.Name)
	}
	for _, q := range f.queues {
		if q.TopicID == r.TopicID {
			return q, nil
		}
	}
	return nil, queen.ErrUnknownQueueID
}

func (f *fake) CatalogVersion() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version
}

func (f *fake) AllQueues(ctx context.Context) ([]queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	var all []queen.Queue
	for _, q := range f.queues {
		all = append(all, q.Queue)
	}
	slices.SortFunc(all, func(a, b queen.Queue) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (f *fake) CreateQueue(ctx context.Context, n queen.NewQueue) (queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return queen.Queue{}, f.fail
	}
	if f.queues[n.Name] != nil {
		return queen.Queue{}, fmt.Errorf("%w: %q", queen.ErrQueueExists, n.Name)
	}
	q := &fakeQueue{Queue: queen.Queue{Name: n.Name, Partitions: n.Partitions, Fixed: true, Options: n.Options}}
	if err := n.Options.Validate(); err != nil || n.Validate {
		return q.Queue, err
	}
	f.created++
	f.lastID++
	q.ID = f.lastID
	q.TopicID = uuid.UUID{0: 0x11, 15: byte(f.lastID)}
	for range n.Partitions {
		q.logs = append(q.logs, &fakeLog{producers: make(map[int64]*fakeProducer)})
	}
	f.queues[n.Name] = q
	f.version++
	return q.Queue, nil
}

func (f *fake) Configure(ctx context.Context, name string, p queen.OptionsPatch) (queen.Configured, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return queen.Configured{}, f.fail
	}
	q, err := f.find(queen.QueueRef{Name: name})
	if err != nil {
		return queen.Configured{}, err
	}
	if !p.Existing || !p.Merge {
		panic("the door would create or reset a queue")
	}
	c := queen.Configured{Queue: q.Queue, Before: q.Options}
	c.Queue.Options = p.Apply(q.Options, queen.DefaultOptions())
	if err := c.Queue.Options.Validate(); err != nil {
		return queen.Configured{}, err
	}
	if !p.Validate {
		q.Queue = c.Queue
	}
	return c, nil
}

func (f *fake) DeleteQueue(ctx context.Context, ref queen.QueueRef) (queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return queen.Queue{}, f.fail
	}
	q, err := f.find(ref)
	if err != nil {
		return queen.Queue{}, err
	}
	delete(f.queues, q.Name)
	f.version++
	return q.Queue, nil
}

func (f *fake) AddPartitions(ctx context.Context, name string, count int, validate bool) (queen.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return queen.Queue{}, f.fail
	}
	q, err := f.find(queen.QueueRef{Name: name})
	if err != nil {
		return queen.Queue{}, err
	}
	if count <= q.Partitions {
		return queen.Queue{}, queen.ErrInvalidPartitions
	}
	f.version++
	for !validate && q.Partitions < count {
		q.Partitions++
		q.logs = append(q.logs, &fakeLog{producers: make(map[int64]*fakeProducer)})
	}
	return q.Queue, nil
}
