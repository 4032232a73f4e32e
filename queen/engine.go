package queen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"queenmq/dedup"
	"queenmq/store"
)

// Config is how an Engine is opened. Zero values mean the defaults named.
type Config struct {
	DB  *store.DB
	Log *slog.Logger
	// Registry takes the engine's metrics; nil: they are counted and not shown.
	Registry prometheus.Registerer

	// Broker is how this process presents itself to clients and peers.
	Broker BrokerConfig

	Flushers            int           // goroutines that flush, each with a connection of its own; default 8
	BundlePartitionsMax int           // partitions in one call; default 16
	BundleBytesMax      int           // bytes in one call; default 1 MiB
	SegmentBytesMax     int           // bytes in one segment, or one batch; default 1 MiB
	PendingBytesMax     int           // bytes accepted and not yet stored; default 128 MiB; then callers wait
	WriteTimeout        time.Duration // from acceptance to an outcome; default 10 s
	CallTimeout         time.Duration // of one database call; default 8 s
	RetryMin, RetryMax  time.Duration // between attempts; defaults 5 ms, 500 ms

	// DedupCacheBytesMax bounds the memory of ids; default 512 MiB. DedupCacheOff
	// switches it off: every verdict stays the same, only dearer.
	DedupCacheBytesMax int64
	DedupCacheOff      bool
	// ProbeAloneOffsets: a flush that must look through more offsets than this
	// shares its call with no other partition; default 50,000.
	ProbeAloneOffsets int64

	DecompressedBytesMax int   // of one record batch; default 64 MiB
	TailBytesMax         int64 // of the newest records; default 48 MiB
	// SpillDir is where files are kept of what leaves the tail, without a name and gone
	// with the process; empty: nowhere. SpillBytesMax bounds them; default 1 GiB.
	SpillDir      string
	SpillBytesMax int64
	ReadBytesMax  int // of one reply; default 64 MiB

	WaitersMax           int           // readers waiting, counted once per partition; default 1,000,000; then reads are refused
	CatalogPartitionsMax int           // cached; default 200,000
	CatalogEvery         time.Duration // poll of the catalog version; default 500 ms
	PollMin, PollMax     time.Duration // poll of other brokers' writes; defaults 3 ms, 100 ms
	// WatchFor is how long a partition is polled after its last waiter, and how long memory
	// may be read beside other brokers without having asked where the log begins; default 10 s.
	WatchFor       time.Duration
	RetentionEvery time.Duration // pause between rounds of retention; default 5 s
	CompactEvery   time.Duration // pause between rounds of compaction; default 5 s
	CompactKeysMax int           // keys compared in one pass, 60 bytes each; default 1,000,000; more take more passes
}

func (c Config) withDefaults() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	dur := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Flushers, 8)
	def(&c.BundlePartitionsMax, 16)
	def(&c.BundleBytesMax, 1<<20)
	def(&c.SegmentBytesMax, 1<<20)
	def(&c.PendingBytesMax, 128<<20)
	def(&c.DecompressedBytesMax, DecompressedBytesMax)
	def(&c.ReadBytesMax, 64<<20)
	def(&c.WaitersMax, 1_000_000)
	def(&c.CatalogPartitionsMax, 200_000)
	def(&c.CompactKeysMax, 1_000_000)
	dur(&c.WriteTimeout, 10*time.Second)
	dur(&c.CallTimeout, 8*time.Second)
	dur(&c.RetryMin, 5*time.Millisecond)
	dur(&c.RetryMax, 500*time.Millisecond)
	dur(&c.CatalogEvery, 500*time.Millisecond)
	dur(&c.PollMin, 3*time.Millisecond)
	dur(&c.PollMax, 100*time.Millisecond)
	dur(&c.WatchFor, 10*time.Second)
	dur(&c.RetentionEvery, 5*time.Second)
	dur(&c.CompactEvery, 5*time.Second)
	if c.DedupCacheBytesMax == 0 {
		c.DedupCacheBytesMax = 512 << 20
	}
	if c.ProbeAloneOffsets == 0 {
		c.ProbeAloneOffsets = 50_000
	}
	if c.TailBytesMax == 0 {
		c.TailBytesMax = 48 << 20
	}
	if c.SpillBytesMax == 0 {
		c.SpillBytesMax = 1 << 30
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.DB == nil:
		return errors.New("queen: Config.DB is missing")
	case c.Flushers < 1 || c.Flushers > 64:
		return fmt.Errorf("queen: Config.Flushers is %d, must be 1 to 64", c.Flushers)
	case c.BundlePartitionsMax < 1 || c.BundlePartitionsMax > 1024:
		return fmt.Errorf("queen: Config.BundlePartitionsMax is %d, must be 1 to 1024", c.BundlePartitionsMax)
	case c.SegmentBytesMax < 1<<10 || c.SegmentBytesMax > 64<<20:
		return fmt.Errorf("queen: Config.SegmentBytesMax is %d, must be 1 KiB to 64 MiB", c.SegmentBytesMax)
	}
	return nil
}

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
	orphans     orphans
	cache       *dedup.Cache
	incarnation incarnation
	compactions atomic.Pointer[map[int64]compactedTo] // of the last round, by partition
	listed      atomic.Pointer[queueList]             // the last list of all queues

	retained int64 // the partition that retention looked at last; owned by retain

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
		stopping: make(chan struct{}),
		timerSet: make(chan struct{}, 1),
		watches:  &watchSet{m: map[*partition]struct{}{}},
	}
	e.tail.spill = newSpill(cfg.SpillDir, cfg.SpillBytesMax, cfg.Log)
	e.ctx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	e.writer = &writer{
		db: cfg.DB, cfg: cfg, log: cfg.Log, catalog: e.catalog, tail: e.tail, waiters: e.waiters, hotlist: e.hotlist,
		budget: newBudget(cfg.PendingBytesMax), metrics: e.metrics, redirect: e.redirect,
		runs: newRunBuilder(cfg.DB, e.failed("sort ids")),
		wake: make(chan struct{}, cfg.Flushers), idle: make(chan struct{}),
	}
	var err error
	if e.cache, err = dedup.New(dedup.Config{
		BytesMax: cfg.DedupCacheBytesMax, Disabled: cfg.DedupCacheOff, Source: windowSource{cfg.DB}, Log: cfg.Log,
	}); err != nil {
		return nil, fmt.Errorf("queen: %w", err)
	}
	e.writer.cache = e.cache
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

// told says whether the ledger has told the log of this failure, as it does of
// every call: in an outage all tasks fail, and one line a second is enough.
func told(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrStorageFull)
}

// storeError translates an error of the ledger into one of Errors. What
// PostgreSQL said stays out of its text, which a client may see: it can name
// users, hosts and paths, and is in the log.
func storeError(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrOutcomeUnknown):
		return &ledgerError{verb, ErrOutcomeUnknown, err}
	case errors.Is(err, store.ErrStorageFull):
		return &ledgerError{verb, ErrStorageFull, err}
	default:
		// Also what we did not foresee: it was rolled back, and a retry is right.
		return &ledgerError{verb, ErrUnavailable, err}
	}
}

// ledgerError is one of Errors, for a cause that is not for everybody.
type ledgerError struct {
	verb      string
	is, cause error
}

// Error implements error.
func (e *ledgerError) Error() string { return e.is.Error() + ": " + e.verb }

// Unwrap lets errors.Is see both.
func (e *ledgerError) Unwrap() []error { return []error{e.is, e.cause} }

// detail is an error for the log, with its cause.
func detail(err error) error {
	var l *ledgerError
	if errors.As(err, &l) {
		return l.cause
	}
	return err
}
