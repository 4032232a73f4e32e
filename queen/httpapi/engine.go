package httpapi

import (
	"context"

	"queenmq/queen"
)

// Engine is what this door asks of the queue engine.
type Engine interface {
	// Push stores messages and answers one Pushed per message, in order.
	Push(ctx context.Context, msgs []queen.Message) []queen.Pushed
	// Pop leases a batch, waiting as the request says; Popped without messages
	// means nothing was there. A queue that does not exist is one in which nothing
	// is there yet: consumers start before producers.
	Pop(ctx context.Context, r queen.PopRequest) (queen.Popped, error)
	// Ack answers one Acked per ack, in order.
	Ack(ctx context.Context, acks []queen.Ack) []queen.Acked
	// KV applies operations on keys in one call, all or nothing.
	KV(ctx context.Context, ops []queen.KVOp) (queen.KVAnswer, error)
	// Fetch answers one Fetched per item, waiting as the request says.
	Fetch(ctx context.Context, r queen.FetchRequest) ([]queen.Fetched, error)
	// Configure creates the queue or changes its options, all or nothing; the
	// patch is applied under the queue's row lock. A value out of range is ErrInvalidConfig.
	Configure(ctx context.Context, name string, p queen.OptionsPatch) (queen.Configured, error)
	Queues(ctx context.Context, refs []queen.QueueRef) ([]queen.QueueAnswer, error)
	AllQueues(ctx context.Context) ([]queen.Queue, error)
	// Partitions lists a queue's partitions with their log marks.
	Partitions(ctx context.Context, queue string) ([]queen.Partition, error)
	DeleteQueue(ctx context.Context, ref queen.QueueRef) (queen.Queue, error)
	// Ready tells whether the database answers and this broker takes writes; nil is yes.
	Ready(ctx context.Context) error
	Cluster() queen.Cluster
}
