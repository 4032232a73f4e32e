//go:build sdk

package clients

import (
	"slices"
	"testing"

	"queenmq/compat/broker"
)

// The original's Python SDK works unmodified; it needs what PyPI has.
func TestPythonSDKWorks(t *testing.T) {
	t.Parallel()
	p := broker.Temporary(t)
	i := slices.IndexFunc(Clients(), func(c Client) bool { return c.HTTP })
	if r := Run(t.Context(), Clients()[i], p.HTTP, t.Output()); r.Failed() {
		t.Errorf("%s %s: %v, steps %+v", r.Client, r.Version, r.Err, r.Steps)
	}
}
