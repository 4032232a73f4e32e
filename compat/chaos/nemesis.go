package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Fault breaks something. It returns when the thing is broken, or mended if it
// mends it itself.
type Fault struct {
	Name string
	Do   func(ctx context.Context, r *rand.Rand) error
}

// Nemesis breaks things while clients work.
type Nemesis struct {
	// Often are faults drawn at random, one about every Every.
	Often []Fault
	Every time.Duration
	// Once are faults that come one time each, spread over the run.
	Once []Fault
	Seed uint64
	Log  *slog.Logger
}

// Run breaks things for a time, or until ctx ends. A fault that cannot be made
// ends the run: a run without its faults shows nothing.
func (n Nemesis) Run(ctx context.Context, span time.Duration) error {
	r := rand.New(rand.NewPCG(n.Seed, 0))
	start := time.Now()
	once := n.Once
	for made := 0; ; {
		if !wait(ctx, r, n.Every) {
			return context.Cause(ctx)
		}
		passed := time.Since(start)
		if passed >= span && len(once) == 0 {
			return nil
		}
		f := n.Often[r.IntN(len(n.Often))]
		if len(once) > 0 && passed >= span*time.Duration(made+1)/time.Duration(len(n.Once)+1) {
			f, once = once[0], once[1:]
			made++
		}
		n.Log.Info("fault", "name", f.Name, "at", passed.Round(time.Millisecond))
		if err := f.Do(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
}
