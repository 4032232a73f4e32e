package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

// Engine is what this door asks of the queue engine.
type Engine interface {
	// Push stores messages and answers one Pushed per message, in order. It reads them,
	// and what they hold, until it returns, and further only if ctx ended first.
	Push(ctx context.Context, msgs []queen.Message) []queen.Pushed
	// Pop leases batches, waiting as the request says; none means nothing was
	// there. A queue that does not exist is one in which nothing is there yet:
	// consumers start before producers.
	Pop(ctx context.Context, r queen.PopRequest) ([]queen.Popped, error)
	// Release gives back a lease whose client was not reached. It does not wait for
	// the caller's context.
	Release(ctx context.Context, lease uuid.UUID)
	// Extend lets a lease run on; 0 is as long as it was asked for at first.
	Extend(ctx context.Context, lease uuid.UUID, by time.Duration) (queen.Extended, error)
	// Ack answers one Acked per ack, in order.
	Ack(ctx context.Context, acks []queen.Ack) []queen.Acked
	// DeadLetters lists what groups gave up on, and says how many there are.
	DeadLetters(ctx context.Context, q queen.DeadQuery) ([]queen.DeadLetter, int, error)
	PurgeDeadLetters(ctx context.Context, q queen.DeadQuery) (int, error)
	ReplayDeadLetters(ctx context.Context, q queen.DeadQuery) ([]queen.Replayed, error)
	// FindMessage finds a message by its partition and its id, also among the dead letters.
	FindMessage(ctx context.Context, partition int64, id []byte) (queue string, m queen.StoredMessage, dead *queen.DeadLetter, err error)
	// KV applies operations on keys in one call, all or nothing.
	KV(ctx context.Context, ops []queen.KVOp) (queen.KVAnswer, error)
	// Transact does a transaction: all of it or nothing. A rollback is no error.
	Transact(ctx context.Context, tx queen.Transaction) (queen.Transacted, error)
	// Timers schedules and cancels timers in one call, all or nothing.
	Timers(ctx context.Context, ops []queen.TimerOp) ([]queen.TimerResult, error)
	Timer(ctx context.Context, queue, key string) (queen.PendingTimer, bool, error)
	// ListTimers lists a queue's timers by key, and says whether there are more.
	ListTimers(ctx context.Context, queue, after string, limit int) ([]queen.PendingTimer, bool, error)
	// Fetch answers one Fetched per item, waiting as the request says.
	Fetch(ctx context.Context, r queen.FetchRequest) ([]queen.Fetched, error)
	// Configure creates the queue or changes its options, all or nothing; the
	// patch is applied under the queue's row lock. A value out of range is ErrInvalidConfig.
	Configure(ctx context.Context, name string, p queen.OptionsPatch) (queen.Configured, error)
	Queues(ctx context.Context, refs []queen.QueueRef) ([]queen.QueueAnswer, error)
	AllQueues(ctx context.Context) ([]queen.Queue, error)
	// Partitions lists a page of a queue's partitions with their log marks.
	Partitions(ctx context.Context, queue string, from, limit int) (page []queen.Partition, next int, err error)
	// Depth says what waits in partitions from one on; a nil group is the one furthest behind.
	Depth(ctx context.Context, queue string, group *string, from, limit int) (depth []queen.Depth, next int, err error)
	// Count says what queues hold and what groups owe in them, now or a while ago.
	Count(ctx context.Context) (*queen.Count, error)
	// CountQueue is Count of one queue.
	CountQueue(ctx context.Context, queue string) (*queen.Count, error)
	// GroupPositions is a line per partition of one group; of all partitions of a
	// queue that is named.
	GroupPositions(ctx context.Context, q queen.PositionsQuery) (*queen.PositionsPage, error)
	// Lagging says too as of when it is.
	Lagging(ctx context.Context, age time.Duration) ([]queen.PartitionLag, time.Time, error)
	Seek(ctx context.Context, group, queue, partition string, to queen.SeekTo) ([]queen.Sought, error)
	// DeleteGroupFrom deletes a group's positions in one queue, or all where it is empty.
	DeleteGroupFrom(ctx context.Context, group, queue string, subscriptions bool) error
	// SetSubscription moves where a group begins in partitions it has no position in.
	SetSubscription(ctx context.Context, group string, at time.Time) error
	// Changed says which partitions were written to, and up to which moment that is all.
	Changed(ctx context.Context, qs []queen.ChangesQuery) (safe time.Time, out []queen.Changes, err error)
	// Offsets finds offsets by time.
	Offsets(ctx context.Context, qs []queen.OffsetQuery) ([]queen.OffsetAnswer, error)
	DeleteQueue(ctx context.Context, ref queen.QueueRef) (queen.Queue, error)
	// Ready tells whether the database answers and this broker takes writes; nil is yes.
	Ready(ctx context.Context) error
	Cluster() queen.Cluster
}
