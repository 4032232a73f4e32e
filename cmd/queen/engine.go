package main

import (
	"context"
	"errors"
	"net"
	"net/http"

	"queenmq/kafkawire"
	"queenmq/queen/httpapi"
	"queenmq/store"
)

// engine is what both doors ask of the room.
type engine interface {
	kafkawire.Engine
	httpapi.Engine
}

// openEngine opens the room over the ledger. Until the room is there, it is nil.
func (b *broker) openEngine(context.Context, *store.DB, string, int32) (engine, error) {
	return nil, nil
}

// openDoors starts serving on both listeners. Closing goes the other way: first
// the doors stop taking requests and answer those under way.
func (b *broker) openDoors(ctx context.Context, e engine, kafkaListener, httpListener net.Listener) error {
	if e == nil {
		b.log.Warn("the engine is not part of this build: both doors are closed")
		return nil
	}
	kafka, err := kafkawire.New(context.WithoutCancel(ctx), kafkawire.Config{
		Engine: e, Logger: b.log,
		AutoCreate:        b.flags.KafkaAutoCreate,
		DefaultPartitions: b.flags.KafkaDefaultPartitions,
		PartitionsMax:     b.flags.KafkaMaxPartitions,
	})
	if err != nil {
		return err
	}
	b.onClose("kafka door", kafka.Shutdown)
	native := httpapi.New(httpapi.Config{Logger: b.log, Registry: b.metrics, Version: version}, e)
	b.onClose("http door", native.Shutdown)
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
