package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
	"queenmq/store/storetest"
)

// A role that may change rows and nothing else serves a schema that somebody else
// migrates; what it lacks is named, with who can give it.
func TestMigrateByARoleOfFewRights(t *testing.T) {
	t.Parallel()
	owner := storetest.NewSchema(t)
	role := owner.Schema + "_role"
	pool, err := pgxpool.New(t.Context(), owner.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	exec(t, pool, fmt.Sprintf(`CREATE ROLE %s LOGIN`, role))
	t.Cleanup(func() {
		if _, err := pool.Exec(context.Background(), fmt.Sprintf(`DROP OWNED BY %s; DROP ROLE %s`, role, role)); err != nil {
			t.Error(err)
		}
	})
	cfg := owner
	cfg.URL += " user=" + role
	refused := func(what string, want error, words ...string) {
		t.Helper()
		err := store.Migrate(t.Context(), cfg)
		if !errors.Is(err, want) {
			t.Fatalf("Migrate by a role %s: %v, want %v", what, err, want)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("Migrate by a role %s: %v, want it to say %s", what, err, w)
			}
		}
	}
	refused("that may make no schema", store.ErrForbidden, `GRANT CREATE ON DATABASE`, role)
	exec(t, pool, `CREATE SCHEMA `+owner.Schema)
	exec(t, pool, fmt.Sprintf(`GRANT USAGE ON SCHEMA %s TO %s`, owner.Schema, role))
	refused("that may not change an empty schema", store.ErrNotMigrated, `queen migrate`)
	exec(t, pool, fmt.Sprintf(`REVOKE USAGE ON SCHEMA %s FROM %s`, owner.Schema, role))

	if err := store.Migrate(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	refused("that is kept out of the schema", store.ErrForbidden, `GRANT "postgres" TO`, role)
	exec(t, pool, fmt.Sprintf(`GRANT USAGE ON SCHEMA %s TO %s`, owner.Schema, role))
	refused("that may not read the tables", store.ErrForbidden, `SELECT, INSERT, UPDATE and DELETE`, role)
	exec(t, pool, fmt.Sprintf(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %s`, owner.Schema, role))
	exec(t, pool, fmt.Sprintf(`GRANT USAGE ON ALL SEQUENCES IN SCHEMA %s TO %s`, owner.Schema, role))
	if err := store.Migrate(t.Context(), cfg); err != nil {
		t.Fatalf("Migrate of a schema that lacks nothing: %v", err)
	}
	db := storetest.OpenConfig(t, cfg)
	if _, err := db.Register(t.Context(), broker(), 1, uuid.Nil); err != nil {
		t.Errorf("Register: %v", err)
	}
	p := partitions(t, db, "q", 1)
	if err := commit(t.Context(), db, p[0], 1); err != nil {
		t.Errorf("commit: %v", err)
	}

	exec(t, pool, fmt.Sprintf(`DELETE FROM %s.schema_files WHERE name = 'append_1'`, owner.Schema))
	refused("that may not add a function", store.ErrNotMigrated, "append_1", `role "postgres"`)
	exec(t, pool, fmt.Sprintf(`INSERT INTO %s.schema_files VALUES ('append_1', 'another'), ('0009_later', 'x')`, owner.Schema))
	refused("of another binary", store.ErrChangedText)
	exec(t, pool, fmt.Sprintf(`DELETE FROM %s.schema_files WHERE name = 'append_1'`, owner.Schema))
	if err := store.Migrate(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	refused("of an older binary", store.ErrNewerSchema, "0009_later")
}
