package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestProfilesAreForThisMachineOnly(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:0", ":0"} {
		b := &broker{flags: &serveCommand{DebugAddr: addr, Insecure: true}, log: slog.New(slog.DiscardHandler)}
		if err := b.openDebug(t.Context()); err == nil || !strings.Contains(err.Error(), "--debug-addr") {
			t.Errorf("--debug-addr %s: error %v, want it refused, --insecure or not", addr, err)
		}
	}
}

func TestProfilesAreServedUntilClosed(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	b := &broker{flags: &serveCommand{DebugAddr: "127.0.0.1:0"}, log: slog.New(slog.NewTextHandler(log, nil)), failed: make(chan error, 4)}
	if err := b.openDebug(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://\S+/`).FindString(log.String()) + "goroutine?debug=1"
	get := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	if body, err := get(); err != nil || !strings.Contains(body, "TestProfilesAreServedUntilClosed") {
		t.Errorf("goroutines: %.200q, %v, want this test among them", body, err)
	}
	if err := b.close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := get(); err == nil {
		t.Error("profiles are still served after close")
	}
	select {
	case err := <-b.failed:
		t.Errorf("closing counts as a failure: %v", err)
	default:
	}
}
