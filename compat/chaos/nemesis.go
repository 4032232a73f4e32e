package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Fault breaks something and mends it again.
type Fault struct {
	Name string
	Do   func(ctx context.Context, r *rand.Rand) error
}

// Nemesis breaks things while clients work.
type Nemesis struct {
	Faults []Fault
	// Least and Most bound how long a round lasts, or longer if its faults do.
	Least, Most time.Duration
	// AtOnce is how many faults a round has at most.
	AtOnce int
	Seed   uint64
	Log    *slog.Logger
}

// Run breaks things for a time, or until ctx ends, and returns when all is
// mended, with how often each fault was made. A quarter of the rounds are quiet,
// the others have some of the faults at once. They are drawn like cards: none
// comes again before all have come. What is drawn depends on the seed alone. A
// fault that cannot be made ends the run: a run without its faults shows nothing.
func (n Nemesis) Run(ctx context.Context, span time.Duration) (map[string]int, error) {
	r := rand.New(rand.NewPCG(n.Seed, 0))
	made := make(map[string]int)
	var deck []Fault
	start := time.Now()
	for round := uint64(1); time.Since(start) < span; round++ {
		least := time.NewTimer(n.Least + time.Duration(r.Int64N(int64(n.Most-n.Least)+1)))
		defer least.Stop()
		count := 0
		if r.IntN(4) > 0 {
			count = 1 + r.IntN(n.AtOnce)
		}
		var wg sync.WaitGroup
		errs := make(chan error, count)
		for i := range count {
			if len(deck) == 0 {
				for _, j := range r.Perm(len(n.Faults)) {
					deck = append(deck, n.Faults[j])
				}
			}
			f := deck[0]
			deck = deck[1:]
			made[f.Name]++
			rand := rand.New(rand.NewPCG(n.Seed, round<<8+uint64(i)))
			wg.Go(func() {
				n.Log.Info("fault", "name", f.Name)
				begun := time.Now()
				if err := f.Do(ctx, rand); err != nil {
					errs <- fmt.Errorf("%s: %w", f.Name, err)
					return
				}
				n.Log.Info("mended", "name", f.Name, "after", time.Since(begun).Round(time.Millisecond))
			})
		}
		wg.Wait()
		close(errs)
		var all error
		for err := range errs {
			all = errors.Join(all, err)
		}
		if all != nil {
			return made, all
		}
		select {
		case <-least.C:
		case <-ctx.Done():
			return made, context.Cause(ctx)
		}
	}
	return made, nil
}
