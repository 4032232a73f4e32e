package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// schedule runs a nemesis in a bubble and answers when it made which fault.
func schedule(t *testing.T, seed uint64) (at []string, made map[string]int, quiet int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		begun := time.Now()
		rounds := map[time.Duration]bool{}
		var faults []Fault
		for i := range 7 {
			name := fmt.Sprint("f", i)
			faults = append(faults, Fault{name, func(_ context.Context, r *rand.Rand) error {
				mu.Lock()
				defer mu.Unlock()
				rounds[time.Since(begun)] = true
				at = append(at, fmt.Sprint(time.Since(begun), name, r.Uint64()))
				return nil
			}})
		}
		n := Nemesis{Faults: faults, Least: 7 * time.Second, Most: 7 * time.Second, AtOnce: 3, Seed: seed, Log: slog.New(slog.DiscardHandler)}
		var err error
		if made, err = n.Run(t.Context(), 700*time.Second); err != nil {
			t.Error(err)
		}
		quiet = 100 - len(rounds)
	})
	slices.Sort(at)
	return at, made, quiet
}

func TestNemesisRepeatsWhatItsSeedSays(t *testing.T) {
	t.Parallel()
	first, made, quiet := schedule(t, 5)
	if again, _, _ := schedule(t, 5); !slices.Equal(first, again) {
		t.Errorf("one seed, two schedules:\n%q\n%q", first, again)
	}
	if other, _, _ := schedule(t, 6); slices.Equal(first, other) {
		t.Error("two seeds, one schedule")
	}
	// 100 rounds, a quarter of them quiet: 25, give or take three standard deviations.
	if quiet < 12 || quiet > 38 {
		t.Errorf("%d of 100 rounds are quiet, want about 25", quiet)
	}
	least, most := len(first), 0
	for i := range 7 {
		n := made[fmt.Sprint("f", i)]
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 || least < 10 {
		t.Errorf("faults are made from %d to %d times each: %v", least, most, made)
	}
}

func TestNemesisStopsWhenAFaultCannotBeMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := Nemesis{
			Faults: []Fault{{"broken", func(context.Context, *rand.Rand) error { return errors.New("cannot") }}},
			Least:  time.Second, Most: time.Second, AtOnce: 1, Seed: 1, Log: slog.New(slog.DiscardHandler),
		}
		if _, err := n.Run(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "broken: cannot") {
			t.Errorf("error %v", err)
		}
	})
}
