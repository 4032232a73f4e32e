// Command run runs the client matrix, for `make clients`.
//
//	run [-kafka | -brokers HOST:PORT] [NAME…]
//
// Without -brokers it starts the real binary on a fresh database, or with -kafka
// an Apache Kafka node. It ends with 1 if any client failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"queenmq/compat/broker"
	"queenmq/compat/clients"
	"queenmq/compat/kafkanode"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kafka := flag.Bool("kafka", false, "run against an Apache Kafka node")
	brokers := flag.String("brokers", "", "run against the broker at `HOST:PORT`")
	flag.Parse()
	if err := run(ctx, *kafka, *brokers, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kafka bool, addr string, names []string) (err error) {
	all := clients.Clients()
	for _, n := range names {
		if !slices.ContainsFunc(all, func(c clients.Client) bool { return c.Name == n }) {
			return fmt.Errorf("there is no client %q", n)
		}
	}
	var http string
	if addr == "" {
		var stop func() error
		if kafka {
			addr, stop, err = apache(ctx)
		} else {
			addr, http, stop, err = queen(ctx)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	start := time.Now()
	var results []clients.Result
	for _, c := range all {
		door := addr
		if c.HTTP {
			door = http
		}
		switch {
		case len(names) > 0 && !slices.Contains(names, c.Name):
		case door != "":
			results = append(results, clients.Run(ctx, c, door, os.Stderr))
		case len(names) > 0:
			return fmt.Errorf("%s speaks HTTP, which is not served at %s", c.Name, addr)
		}
	}
	clients.Table(os.Stdout, results)
	fmt.Fprintf(os.Stdout, "%d clients in %s\n", len(results), time.Since(start).Round(time.Second))
	if slices.ContainsFunc(results, clients.Result.Failed) {
		return errors.New("not all clients passed")
	}
	return nil
}

func apache(ctx context.Context) (addr string, stop func() error, err error) {
	n, err := kafkanode.Start(ctx, kafkanode.Config{})
	if err != nil {
		return "", nil, err
	}
	return n.Addr, n.Stop, nil
}

func queen(ctx context.Context) (kafka, http string, stop func() error, err error) {
	tmp, err := os.MkdirTemp("", "queen-clients-")
	if err != nil {
		return "", "", nil, err
	}
	undo := []func() error{func() error { return os.RemoveAll(tmp) }}
	stop = func() (err error) {
		for _, f := range slices.Backward(undo) {
			err = errors.Join(err, f())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	binary, err := broker.Build(ctx, tmp)
	if err != nil {
		return "", "", nil, err
	}
	dir, err := broker.NewDataDir()
	if err != nil {
		return "", "", nil, err
	}
	undo = append(undo, func() error { return broker.Discard(dir) })
	p, err := broker.Start(ctx, broker.Config{Binary: binary, DataDir: dir})
	if err != nil {
		return "", "", nil, err
	}
	undo = append(undo, func() error { return p.Stop(30 * time.Second) })
	return p.Kafka, p.HTTP, stop, nil
}
