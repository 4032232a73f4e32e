package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"queenmq/kafkawire"
	"queenmq/queen"
	"queenmq/queen/httpapi"
	"queenmq/store"
	"queenmq/store/localpg"
)

// openEngine opens the room over the ledger. The broker's id is the one asked
// for, else the one it had before, else the lowest free one.
func (b *broker) openEngine(ctx context.Context, db *store.DB, host string, port int32, peer string) (*queen.Engine, error) {
	dir := b.identityDir
	var before identity
	if dir != "" {
		var err error
		if before, err = readIdentity(dir); err != nil {
			return nil, err
		}
	}
	wanted := int32(-1)
	switch {
	case b.flags.BrokerID > 0:
		wanted = b.flags.BrokerID
	case before.BrokerID > 0:
		wanted = before.BrokerID
	}
	spillDir, spillBytes, err := b.spill()
	if err != nil {
		return nil, err
	}
	// Metrics of an engine that does not open are forgotten: it may be tried again.
	metrics := prometheus.NewRegistry()
	e, err := queen.Open(ctx, queen.Config{
		DB: db, Log: b.log, Registry: metrics,
		DedupCacheOff: !b.flags.DedupCache, DedupCacheBytesMax: int64(b.flags.DedupCacheMB) << 20,
		SpillDir: spillDir, SpillBytesMax: spillBytes,
		Broker: queen.BrokerConfig{
			ID: wanted, Instance: b.instance, Predecessor: before.Instance, Host: host, Port: port, PeerAddr: peer, Version: version,
		},
	})
	if err != nil {
		return nil, err
	}
	b.onClose("engine", e.Close)
	if err := b.metrics.Register(metrics); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if dir != "" {
		return e, identity{BrokerID: e.Cluster().Self, Instance: b.instance}.write(dir)
	}
	return e, nil
}

// spillShare is the part of the memory that files of what leaves the tail may be
// large: below what the kernel lets lie unwritten (a tenth, usually), or they would
// be written to the disk all the time, beside the database.
const spillShare = 20

// spill is the folder for these files, and how large they may be in all; an empty
// one: there is none, or none are wanted.
func (b *broker) spill() (dir string, bytesMax int64, err error) {
	if b.identityDir == "" || b.flags.ReadCacheMB == 0 {
		return "", 0, nil
	}
	bytesMax = int64(b.flags.ReadCacheMB) << 20
	if memory := localpg.MemoryBytes(); memory > 0 {
		bytesMax = min(bytesMax, memory/spillShare)
	}
	dir = filepath.Join(b.identityDir, "read-cache")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", 0, fmt.Errorf("make the folder of the read cache: %w", err)
	}
	return dir, bytesMax, nil
}

// openDoors starts serving on both listeners. Closing goes the other way: first
// the doors stop taking requests and answer those under way.
func (b *broker) openDoors(ctx context.Context, e *queen.Engine, kafkaListener, httpListener net.Listener) error {
	kafka, err := kafkawire.New(context.WithoutCancel(ctx), kafkawire.Config{
		Engine: e, Logger: b.log,
		AutoCreate:        b.flags.KafkaAutoCreate,
		DefaultPartitions: b.flags.KafkaDefaultPartitions,
		PartitionsMax:     b.flags.KafkaMaxPartitions,
		Groups: kafkawire.GroupConfig{
			ConsumerHeartbeat: b.flags.KafkaGroupHeartbeat,
			ConsumerSession:   b.flags.KafkaGroupSession,
			OffsetsRetention:  b.flags.OffsetsRetention,
		},
	})
	if err != nil {
		return err
	}
	b.onClose("kafka door", kafka.Shutdown)
	native := httpapi.New(httpapi.Config{Logger: b.log, Registry: b.metrics, Version: version}, e)
	b.onClose("http door", native.Shutdown)
	// Closed first: whoever waits for messages is answered, so that the doors can
	// shut, and members of groups are sent to the next coordinator while these
	// doors still can.
	b.onClose("waiting requests", func(ctx context.Context) error { e.Interrupt(); return e.Resign(ctx) })
	go func() { b.ended("kafka door", kafka.Serve(kafkaListener)) }()
	go func() { b.ended("http door", native.Serve(httpListener)) }()
	return nil
}

// ended reports a door that stopped serving for another reason than our closing it.
func (b *broker) ended(door string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		b.fail(errors.Join(errors.New(door+" ended"), err))
	}
}
