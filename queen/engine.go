package queen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"queenmq/dedup"
	"queenmq/store"
)

// Engine is the room behind both doors. Open starts its goroutines, which are
// listed there; Close ends them.
type Engine struct {
	cfg         Config
	db          *store.DB
	log         *slog.Logger
	catalog     *catalog
	writer      *writer
	tail        *tail
	waiters     *waiters
	brokers     *brokers
	metrics     *metrics
	watches     *watchSet
	leases      *leases
	hotlist     *hotlist
	answers     *answerRoom
	orphans     orphans
	cache       *dedup.Cache
	unpacking   unpacking
	incarnation incarnation
	compactions atomic.Pointer[map[int64]compactedTo] // of the last round, by partition
	listed      atomic.Pointer[queueList]             // the last list of all queues

	retained int64 // the partition that retention looked at last; owned by retain

	steps    countSteps // immutable
	counts   tally[*Count]
	laggards tally[[]PartitionLag]
	tallies  chan func(context.Context) // what is to be made of them; room for one each

	damage damage

	timerSet chan struct{} // buffered: a timer is due soon

	stopping chan struct{} // closed by Interrupt
	stopOnce sync.Once

	ctx    context.Context // ends with Close; the parent of background work only
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// Open registers this broker and starts the engine. The database must be
// migrated. ctx bounds the opening only.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, db: cfg.DB, log: cfg.Log,
		catalog:  newCatalog(cfg.DB, cfg.CatalogPartitionsMax),
		tail:     newTail(cfg.TailBytesMax),
		waiters:  newWaiters(cfg.WaitersMax),
		metrics:  newMetrics(cfg.Registry),
		leases:   newLeases(),
		hotlist:  newHotlist(),
		answers:  newAnswerRoom(cfg.AnswerBytesMax),
		stopping: make(chan struct{}),
		timerSet: make(chan struct{}, 1),
		steps:    countSteps{first: 2000, least: 100, most: 10_000},
		tallies:  make(chan func(context.Context), 2),
		watches:  &watchSet{m: map[*partition]struct{}{}},

		unpacking: make(unpacking, cfg.UnpackMax),
	}
	e.catalog.repeated = e.untilKnown
	e.tail.spill = newSpill(cfg.SpillDir, cfg.SpillBytesMax, cfg.Log)
	e.ctx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	e.writer = &writer{
		db: cfg.DB, cfg: cfg, log: cfg.Log, catalog: e.catalog, tail: e.tail, waiters: e.waiters, hotlist: e.hotlist,
		budget: newBudget(cfg.PendingBytesMax), metrics: e.metrics, redirect: e.redirect,
		runs: newRunBuilder(cfg.DB, e.failed("sort ids")),
		wake: make(chan struct{}, cfg.Flushers), idle: make(chan struct{}),
		alone: make(chan struct{}, max(1, cfg.Flushers/2)), goes: &e.wg,
	}
	var err error
	if e.cache, err = dedup.New(dedup.Config{
		BytesMax: cfg.DedupCacheBytesMax, Disabled: cfg.DedupCacheOff, Source: windowSource{cfg.DB}, Log: cfg.Log,
	}); err != nil {
		return nil, fmt.Errorf("queen: %w", err)
	}
	e.writer.cache, e.catalog.unwindowed = e.cache, e.cache.Unwindowed
	e.metrics.watchCache(cfg.Registry, e.cache)
	if e.brokers, err = openBrokers(ctx, cfg); err != nil {
		e.cache.Close()
		return nil, err
	}
	e.meetIncarnation()

	for range cfg.Flushers {
		e.wg.Go(func() { e.writer.run(e.ctx) })
	}
	e.wg.Go(func() { e.tail.spill.run(e.ctx.Done()) })
	e.wg.Go(func() { e.brokers.run(e.ctx) })
	e.wg.Go(func() { e.catalog.run(e.ctx, cfg.CatalogEvery, cfg.CallTimeout, e.failed("refresh catalog")) })
	e.wg.Go(func() { e.poll(e.ctx) })
	e.wg.Go(func() { e.lookAfter(e.ctx) })
	e.wg.Go(func() { e.retain(e.ctx) })
	e.wg.Go(func() { e.compact(e.ctx) })
	e.wg.Go(func() { e.fireTimers(e.ctx) })
	e.wg.Go(func() { e.tally(e.ctx) })
	e.wg.Go(func() { e.writer.runs.run(e.ctx) })
	return e, nil
}

// Close finishes what was accepted, until ctx ends, then stops. Doors must have
// stopped calling.
func (e *Engine) Close(ctx context.Context) error {
	e.Interrupt()
	err := e.writer.close(ctx)
	e.cancel(ErrClosing)
	e.wg.Wait()
	e.cache.Close()
	return errors.Join(err, e.brokers.resign(ctx))
}

// Interrupt ends all waiting reads at once, so that doors can shut down.
func (e *Engine) Interrupt() { e.stopOnce.Do(func() { close(e.stopping) }) }

// Ready tells whether the database answers and takes writes.
func (e *Engine) Ready(ctx context.Context) error {
	if err := e.brokers.beat(ctx); err != nil {
		return storeError("heartbeat", err)
	}
	return nil
}

// Cluster answers from memory.
func (e *Engine) Cluster() Cluster { return e.brokers.cluster() }

// Coordinator says who coordinates a consumer group, from memory.
func (e *Engine) Coordinator(group string) Coordination { return e.brokers.coordinator(group) }

// Resign takes this broker off the list and gives the groups it coordinates to
// the others at once, so that their members need not miss it first. Doors may
// still call; Close does it too.
func (e *Engine) Resign(ctx context.Context) error { return e.brokers.resign(ctx) }

// failed logs a background error, once a second at most per task; what the ledger
// has told already, for whoever looks closely only.
func (e *Engine) failed(task string) func(error) {
	var last time.Time
	return func(err error) {
		if told(err) {
			e.log.Debug(task+" failed; will retry", "error", detail(err))
			return
		}
		if time.Since(last) >= time.Second {
			last = time.Now()
			e.log.Warn(task+" failed; will retry", "error", detail(err))
		}
	}
}
