package kafkawire

import (
	"context"
	"time"

	"queenmq/queen"
)

// Engine is what this door asks of the queue engine. Methods that may wait
// return at once with something to wait on, or take a context; no method takes
// or returns kmsg.
type Engine interface {
	// Cluster answers from memory.
	Cluster() queen.Cluster
	// Coordinator says who coordinates a group, from memory. What is stored or
	// deleted of a group is so under its Fence, and is queen.ErrNotCoordinator once
	// another broker has taken the group over.
	Coordinator(group string) queen.Coordination
	// Queues looks queues up, in the order asked; a queue that does not exist is
	// answered from the database, never from memory, with ErrUnknownQueue or
	// ErrUnknownQueueID.
	Queues(ctx context.Context, refs []queen.QueueRef) ([]queen.QueueAnswer, error)
	// CatalogVersion is another number when queues or their partitions have
	// changed, as far as this broker has heard; it answers from memory.
	CatalogVersion() int64
	// AllQueues lists every queue, ordered by name.
	AllQueues(ctx context.Context) ([]queen.Queue, error)
	CreateQueue(ctx context.Context, q queen.NewQueue) (queen.Queue, error)
	// Configure applies a patch to a queue that exists (OptionsPatch.Existing).
	Configure(ctx context.Context, name string, p queen.OptionsPatch) (queen.Configured, error)
	// AddPartitions widens a queue to count partitions and answers the queue as
	// it then is; with validate it only says whether it would.
	AddPartitions(ctx context.Context, name string, count int, validate bool) (queen.Queue, error)
	// Truncate deletes the oldest messages of partitions, one answer for each.
	Truncate(ctx context.Context, ts []queen.Truncation) []queen.Truncated
	DeleteQueue(ctx context.Context, ref queen.QueueRef) (queen.Queue, error)
	// Append starts the appends in order and returns one Pending per item, at
	// once unless the bound on bytes in flight is reached.
	Append(ctx context.Context, items []queen.AppendItem) []*queen.Pending
	// Read answers one ReadAnswer per item, waiting as the request says.
	Read(ctx context.Context, r queen.ReadRequest) ([]queen.ReadAnswer, error)
	Offsets(ctx context.Context, q []queen.OffsetQuery) ([]queen.OffsetAnswer, error)
	EpochEnds(ctx context.Context, q []queen.EpochQuery) ([]queen.EpochAnswer, error)
	NewProducer(ctx context.Context) (queen.ProducerID, error)
	// Sizes tells how many bytes partitions hold, one answer for each.
	Sizes(ctx context.Context, refs []queen.PartitionRef) ([]queen.SizeAnswer, error)
	// Producers lists the idempotent producers of a partition.
	Producers(ctx context.Context, ref queen.PartitionRef) ([]queen.ActiveProducer, error)
	// CommitOffsets stores positions; the answers carry Err per partition.
	CommitOffsets(ctx context.Context, group string, under queen.Fence, c []queen.Cursor) ([]queen.Cursor, error)
	// FetchOffsets reads positions; nil refs means all of the group's.
	FetchOffsets(ctx context.Context, group string, refs []queen.PartitionRef) ([]queen.Cursor, error)
	// HasPositions says whether a group has any.
	HasPositions(ctx context.Context, group string) (bool, error)
	// Groups lists the groups that have positions, by name.
	Groups(ctx context.Context) ([]string, error)
	// DeleteGroup deletes all positions of a group.
	DeleteGroup(ctx context.Context, group string, under queen.Fence) error
	// OldOffsets calls f for each group with a position that a Kafka client
	// committed age ago or earlier.
	OldOffsets(ctx context.Context, age time.Duration, f func(group string) error) error
	// GroupsSeen notes that groups have, or just had, members.
	GroupsSeen(ctx context.Context, groups []string, forget time.Duration) error
	// ExpireOffsets deletes a group's old positions and says how many.
	ExpireOffsets(ctx context.Context, group string, under queen.Fence, x queen.Expiry) (int, error)
	// DeleteOffsets deletes positions; one error per partition.
	DeleteOffsets(ctx context.Context, group string, under queen.Fence, refs []queen.PartitionRef) ([]error, error)
}
