package clients

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"queenmq/compat/broker"
)

// Other people's clients work: those that need only Go and what the tests install
// anyway. `make clients` runs them all.
func TestQuickClientsWork(t *testing.T) {
	t.Parallel()
	addr := os.Getenv("COMPAT_SEEDS")
	if addr == "" {
		addr = broker.Temporary(t).Kafka
	}
	for _, c := range Clients() {
		if !c.Quick {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r := Run(t.Context(), c, addr, t.Output())
			if r.Failed() {
				t.Errorf("%s %s: %v, steps %+v", r.Client, r.Version, r.Err, r.Steps)
			}
		})
	}
}

// A client fails by a step, by its exit code, and by doing nothing.
func TestAClientThatDoesNotPassFails(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		script string
		failed bool
	}{
		"passes":          {"echo version 1; echo 'PASS a (1ms)'; echo 'SKIP b: not offered'", false},
		"a step fails":    {"echo 'PASS a'; echo 'FAIL b: why'", true},
		"exit code":       {"echo 'PASS a'; exit 1", true},
		"nothing was run": {"echo version 1", true},
		"only skipped":    {"echo 'SKIP a: not offered'", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "client.sh")
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+f.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			c := Client{Name: name, prepare: func(context.Context, kit) ([]string, []string, error) {
				return []string{"/bin/sh", path}, nil, nil
			}}
			if r := Run(t.Context(), c, "127.0.0.1:1", t.Output()); r.Failed() != f.failed {
				t.Errorf("failed is %v: %+v", r.Failed(), r)
			}
		})
	}
}
