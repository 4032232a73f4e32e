package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// openDebug serves Go's profiles, to this machine only: they show what the
// broker holds in memory.
func (b *broker) openDebug(ctx context.Context) error {
	addr := b.flags.DebugAddr
	if addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--debug-addr: %w", err)
	}
	if !loopback(host) {
		return fmt.Errorf("--debug-addr %s can be reached by others: use a loopback address such as 127.0.0.1:6060", addr)
	}
	l, err := listen(ctx, "--debug-addr", addr, false)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	b.onClose("debug door", func(context.Context) error { return server.Close() })
	go func() {
		if err := server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			b.fail(fmt.Errorf("debug door: %w", err))
		}
	}()
	b.log.Info("profiles are served", "url", "http://"+l.Addr().String()+"/debug/pprof/")
	return nil
}
