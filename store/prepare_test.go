package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"queenmq/store/storetest"
)

// TestQueriesPrepare checks each statement against the migrated schema.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t, storetest.New(t))
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	files, err := filepath.Glob("query/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(f) == "migration_lock.sql" {
			continue // several statements
		}
		if _, err := conn.Conn().PgConn().Prepare(t.Context(), "", string(text), nil); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}
