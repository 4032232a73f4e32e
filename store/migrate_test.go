package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"queenmq/store"
	"queenmq/store/storetest"
)

func TestMigrateManyAtOnce(t *testing.T) {
	t.Parallel()
	cfg := storetest.NewSchema(t)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := store.Migrate(t.Context(), cfg); err != nil {
				t.Errorf("Migrate: %v", err)
			}
		})
	}
	wg.Wait()
	db := storetest.OpenConfig(t, cfg)
	if got := db.Incarnation().Epoch; got != 1 {
		t.Errorf("epoch after the first connection is %d, want 1", got)
	}
}

func TestOpenRefusesSchemaThatIsNotMigrated(t *testing.T) {
	t.Parallel()
	_, err := store.Open(context.Background(), storetest.NewSchema(t))
	if !errors.Is(err, store.ErrNotMigrated) {
		t.Errorf("Open: %v, want ErrNotMigrated", err)
	}
}
