package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"queenmq/queen"
	"queenmq/store"
)

type serveCommand struct {
	databaseFlags

	KafkaAddr      string `env:"QUEEN_KAFKA_ADDR" default:"127.0.0.1:9092" placeholder:"HOST:PORT" help:"Address of the Kafka door (${default}); port 0 takes a free one."`
	HTTPAddr       string `env:"QUEEN_HTTP_ADDR" name:"http-addr" default:"127.0.0.1:6632" placeholder:"HOST:PORT" help:"Address of the HTTP door (${default}); port 0 takes a free one."`
	AdvertisedAddr string `env:"QUEEN_ADVERTISED_ADDR" placeholder:"HOST[:PORT]" help:"Address Kafka clients are told to connect to (default: what --kafka-addr bound)."`
	PeerAddr       string `env:"QUEEN_PEER_ADDR" placeholder:"HOST:PORT" help:"Address other brokers reach the Kafka door of this one at, if they share --advertised-addr (default: what --kafka-addr bound)."`
	Insecure       bool   `env:"QUEEN_INSECURE" help:"Allow addresses that others can reach; there is no authentication yet."`

	DebugAddr string `env:"QUEEN_DEBUG_ADDR" placeholder:"HOST:PORT" help:"Loopback address to serve Go profiles on (default: none); read them with go tool pprof."`

	BrokerID               int32 `env:"QUEEN_BROKER_ID" name:"broker-id" default:"0" placeholder:"ID" help:"Id of this broker; 0 takes the lowest free one and keeps it in the data folder."`
	KafkaAutoCreate        bool  `env:"QUEEN_KAFKA_AUTO_CREATE" default:"true" negatable:"" help:"Create a topic when a Kafka client asks for one that does not exist."`
	KafkaDefaultPartitions int   `env:"QUEEN_KAFKA_DEFAULT_PARTITIONS" default:"1" placeholder:"N" help:"Partitions of a topic created without a number (${default})."`
	KafkaMaxPartitions     int   `env:"QUEEN_KAFKA_MAX_PARTITIONS" default:"10000" placeholder:"N" help:"A queue with more partitions is not shown to Kafka clients (${default})."`

	KafkaGroupHeartbeat time.Duration `env:"QUEEN_KAFKA_GROUP_HEARTBEAT" default:"5s" placeholder:"TIME" help:"How often members of groups of the new consumer protocol report (${default})."`
	KafkaGroupSession   time.Duration `env:"QUEEN_KAFKA_GROUP_SESSION" default:"45s" placeholder:"TIME" help:"How long such a member may be silent before it is out (${default})."`

	OffsetsRetention time.Duration `env:"QUEEN_OFFSETS_RETENTION" default:"168h" placeholder:"TIME" help:"How long positions that Kafka clients committed are kept once nobody is in their group (${default})."`

	DedupCache   bool `env:"QUEEN_DEDUP_CACHE" default:"true" negatable:"" help:"Remember ids in memory, so that deduplication looks through less. Off, every verdict stays the same."`
	DedupCacheMB int  `env:"QUEEN_DEDUP_CACHE_MB" name:"dedup-cache-mb" default:"512" placeholder:"N" help:"Memory for that, in MiB (${default})."`

	ReadCacheMB int `env:"QUEEN_READ_CACHE_MB" name:"read-cache-mb" default:"1024" placeholder:"N" help:"Disk space in the data folder for the newest records, so that consumers a little behind need no database, in MiB, at most a twentieth of the memory; 0 for none (${default})."`

	DatabaseWait    time.Duration `env:"QUEEN_DATABASE_WAIT" default:"60s" placeholder:"TIME" help:"How long a start waits for a database that cannot be reached or is starting up (${default})."`
	ShutdownTimeout time.Duration `env:"QUEEN_SHUTDOWN_TIMEOUT" default:"30s" placeholder:"TIME" help:"How long a shutdown may take before it cuts things short (${default})."`
}

// retentionMax is ten years: twice as long must still be a time.Duration.
const retentionMax = 10 * 365 * 24 * time.Hour

// Validate refuses what cannot work, before anything is started.
func (c *serveCommand) Validate() error {
	switch {
	case c.BrokerID < 0:
		return fmt.Errorf("--broker-id is %d, must not be negative", c.BrokerID)
	case c.KafkaMaxPartitions < 1:
		return fmt.Errorf("--kafka-max-partitions is %d, must be at least 1", c.KafkaMaxPartitions)
	case c.KafkaDefaultPartitions < 1 || c.KafkaDefaultPartitions > c.KafkaMaxPartitions:
		return fmt.Errorf("--kafka-default-partitions is %d, must be 1 to %d", c.KafkaDefaultPartitions, c.KafkaMaxPartitions)
	case c.KafkaGroupHeartbeat < time.Millisecond:
		return fmt.Errorf("--kafka-group-heartbeat is %s, must be at least 1ms", c.KafkaGroupHeartbeat)
	case c.KafkaGroupSession <= c.KafkaGroupHeartbeat || c.KafkaGroupSession > time.Hour:
		return fmt.Errorf("--kafka-group-session is %s, must be more than --kafka-group-heartbeat, %s, and at most an hour",
			c.KafkaGroupSession, c.KafkaGroupHeartbeat)
	case c.OffsetsRetention < time.Second || c.OffsetsRetention > retentionMax:
		return fmt.Errorf("--offsets-retention is %s, must be 1s to %s", c.OffsetsRetention, retentionMax)
	case c.DedupCacheMB < 1 || c.DedupCacheMB > 1<<20:
		return fmt.Errorf("--dedup-cache-mb is %d, must be 1 to %d", c.DedupCacheMB, 1<<20)
	case c.ReadCacheMB < 0 || c.ReadCacheMB > 1<<20:
		return fmt.Errorf("--read-cache-mb is %d, must be 0 to %d", c.ReadCacheMB, 1<<20)
	case c.DatabaseWait < 0:
		return fmt.Errorf("--database-wait is %s, must not be negative", c.DatabaseWait)
	case c.ShutdownTimeout <= 0:
		return fmt.Errorf("--shutdown-timeout is %s, must be positive", c.ShutdownTimeout)
	}
	return nil
}

// broker is one running `queen serve`: what was opened, in order.
type broker struct {
	flags   *serveCommand
	log     *slog.Logger
	metrics *prometheus.Registry
	failed  chan error // a part that ended by itself
	opened  []opened
	serving bool // it was ready

	// instance is this process for the others. It stays when the engine is opened
	// again after the database failed: the id it registered then is its own.
	instance    uuid.UUID
	identityDir string // where the broker keeps its id; empty: nowhere
}

// opened is one part that must be closed again.
type opened struct {
	name  string
	close func(context.Context) error
}

func (b *broker) onClose(name string, f func(context.Context) error) {
	b.opened = append(b.opened, opened{name, f})
}

// serveGCPercent makes a broker collect its garbage more often than Go would (100). What
// it holds is bytes without pointers, so that costs little, and more than half of
// the memory above what it holds is saved.
const serveGCPercent = 40

// Run serves until the process is told to stop or a part fails.
func (c *serveCommand) Run(p *process) error {
	if os.Getenv("GOGC") == "" { // Go has read it already
		defer debug.SetGCPercent(debug.SetGCPercent(serveGCPercent))
	}
	b := &broker{
		flags: c, log: p.log, metrics: prometheus.NewRegistry(), failed: make(chan error, 4), instance: uuid.New(),
	}
	b.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	ready, err := b.open(p.ctx)
	if err == nil {
		b.serving = true
		if _, err = fmt.Fprintln(p.stdout, ready); err == nil {
			select {
			case <-p.ctx.Done():
				b.log.Info("stopping", "reason", context.Cause(p.ctx))
			case err = <-b.failed:
				b.log.Error("stopping", "error", err)
			}
		}
	} else if p.ctx.Err() != nil {
		err = nil // told to stop while starting
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), c.ShutdownTimeout)
	defer cancel()
	return errors.Join(err, b.close(ctx))
}

// open brings everything up, each part on top of the one before, and returns
// the ready line.
func (b *broker) open(ctx context.Context) (string, error) {
	// Bound before the database starts, so that a taken port is told at once;
	// nobody is accepted before everything behind the doors is there.
	kafka, err := listen(ctx, "--kafka-addr", b.flags.KafkaAddr, b.flags.Insecure)
	if err != nil {
		return "", err
	}
	b.onClose("kafka listener", closeListener(kafka))
	http, err := listen(ctx, "--http-addr", b.flags.HTTPAddr, b.flags.Insecure)
	if err != nil {
		return "", err
	}
	b.onClose("http listener", closeListener(http))
	host, port, err := advertise(b.flags.AdvertisedAddr, kafka.Addr())
	if err != nil {
		return "", err
	}
	peer, err := peerAddr(b.flags.PeerAddr, kafka.Addr(), net.InterfaceAddrs)
	if err != nil {
		return "", err
	}

	if err := b.openDebug(ctx); err != nil {
		return "", err
	}

	database, err := openDatabase(ctx, b.flags.databaseFlags, b.log)
	if err != nil {
		return "", err
	}
	b.onClose("database", database.close)
	b.identityDir = database.dir
	b.watch("database", database)
	until := time.Now().Add(b.flags.DatabaseWait)
	var db *store.DB
	if err := b.reach(ctx, until, func() (err error) {
		if err = database.migrate(ctx); err == nil {
			db, err = store.Open(ctx, database.config)
			err = database.named(err)
		}
		return err
	}); err != nil {
		return "", err
	}
	b.onClose("connections", func(context.Context) error { db.Close(); return nil })

	var engine *queen.Engine
	if err := b.reach(ctx, until, func() (err error) {
		engine, err = b.openEngine(ctx, db, host, port, peer)
		return err
	}); err != nil {
		return "", err
	}
	if err := b.openDoors(ctx, engine, kafka, http); err != nil {
		return "", err
	}
	b.log.Info("ready", "kafka", kafka.Addr(), "http", http.Addr(), "broker", engine.Cluster().Self, "database", database.kind())
	return fmt.Sprintf("ready kafka=%s http=%s database=%s version=%s", kafka.Addr(), http.Addr(), database.kind(), version), nil
}

// databaseRetry is the pause before a database that was not there is tried again.
const databaseRetry = 500 * time.Millisecond

// reach repeats a step of the start while it fails because the database cannot
// be reached, which is what happens when both start at once, or while the database
// restarts or fails over. Each step may be repeated.
func (b *broker) reach(ctx context.Context, until time.Time, step func() error) error {
	for said := false; ; said = true {
		err := step()
		if err == nil || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrOutcomeUnknown) || time.Now().After(until) {
			return err
		}
		if !said {
			b.log.Warn("waiting for the database", "for", time.Until(until).Round(time.Second), "error", err)
		}
		select {
		case <-time.After(databaseRetry):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// watch ends the broker when the managed database is gone for good.
func (b *broker) watch(name string, database *database) {
	gone := database.gone()
	if gone == nil {
		return
	}
	go func() {
		<-gone
		if err := database.local.Err(); err != nil {
			b.fail(fmt.Errorf("%s: %w", name, err))
		}
	}()
}

func (b *broker) fail(err error) {
	select {
	case b.failed <- err:
	default: // one reason is enough to stop
	}
}

// close undoes open in reverse; a part that fails does not keep the others open.
func (b *broker) close(ctx context.Context) error {
	var errs []error
	for i := len(b.opened) - 1; i >= 0; i-- {
		part := b.opened[i]
		began := time.Now()
		err := part.close(ctx)
		log := b.log.With("part", part.name, "took", time.Since(began).Round(time.Millisecond))
		if err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", part.name, err))
			log.Error("not closed cleanly", "error", err)
			continue
		}
		level := slog.LevelInfo
		if !b.serving { // why the start failed is what counts then
			level = slog.LevelDebug
		}
		log.Log(ctx, level, "closed")
	}
	return errors.Join(errs...)
}

func closeListener(l net.Listener) func(context.Context) error {
	return func(context.Context) error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}
