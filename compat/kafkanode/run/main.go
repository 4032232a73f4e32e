// Command run starts an Apache Kafka node in the foreground, for `make kafka`.
//
//	run [FLAG…]                start, print `ready kafka=HOST:PORT`, stop on SIGTERM
//	run [FLAG…] exec COMMAND…  start, run COMMAND with COMPAT_SEEDS set, stop
//	run tool NAME [ARG…]       run a console tool, such as kafka-console-consumer
//
// -as-shipped starts it as its own start script and server.properties do, for
// measuring it: 1 GiB of heap, their collector's settings, their number of threads.
// Without, it is small, as tests want it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"queenmq/compat/kafkanode"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	cfg := kafkanode.Config{Log: os.Stderr}
	if len(args) > 0 && args[0] == "-as-shipped" {
		cfg, args = kafkanode.AsShipped(), args[1:]
	}
	switch {
	case len(args) == 0:
		return foreground(ctx, cfg)
	case args[0] == "exec" && len(args) > 1:
		return around(ctx, cfg, args[1], args[2:])
	case args[0] == "tool" && len(args) > 1:
		cmd, err := kafkanode.Tool(ctx, args[1], args[2:]...)
		if err != nil {
			return err
		}
		return attached(cmd)
	default:
		return errors.New("usage: run [-as-shipped] [exec COMMAND [ARG…] | tool NAME [ARG…]]")
	}
}

func foreground(ctx context.Context, cfg kafkanode.Config) error {
	n, err := kafkanode.Start(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "ready kafka=%s\n", n.Addr)
	select {
	case <-ctx.Done():
	case <-n.Exited():
		err = errors.New("the node ended by itself")
	}
	return errors.Join(err, n.Stop())
}

// around runs a command while a node is up.
func around(ctx context.Context, cfg kafkanode.Config, name string, args []string) error {
	n, err := kafkanode.Start(ctx, cfg)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, name, args...)
	// Asked to stop as we are, so that it can clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "COMPAT_SEEDS="+n.Addr)
	return errors.Join(attached(cmd), n.Stop())
}

func attached(cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
