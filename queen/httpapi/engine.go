package httpapi

import (
	"context"
	"time"

	"queenmq/queen"
)

// Engine is what this door asks of the queue engine.
type Engine interface {
	// Push stores messages and answers one Pushed per message, in order.
	Push(ctx context.Context, msgs []queen.Message) []queen.Pushed
	// Pop leases a batch, waiting as the request says; Popped without messages
	// means nothing was there.
	Pop(ctx context.Context, r queen.PopRequest) (queen.Popped, error)
	Ack(ctx context.Context, acks []queen.Ack) []queen.Acked
	// Fetch reads messages by offset without moving any position.
	Fetch(ctx context.Context, items []queen.FetchItem, minBytes int, maxWait time.Duration) ([]queen.Fetched, error)
	// Configure creates the queue or replaces its options. It returns the queue as it now is.
	Configure(ctx context.Context, name string, o queen.QueueOptions) (queen.Queue, error)
	Queues(ctx context.Context, refs []queen.QueueRef) ([]queen.QueueAnswer, error)
	AllQueues(ctx context.Context) ([]queen.Queue, error)
	// Partitions lists a queue's partitions with their log marks.
	Partitions(ctx context.Context, queue string) ([]queen.Partition, error)
	DeleteQueue(ctx context.Context, ref queen.QueueRef) (queen.Queue, error)
	// Ready tells whether the database answers and this broker takes writes; nil is yes.
	Ready(ctx context.Context) error
	Cluster() queen.Cluster
}
