package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// schemaRights is what this role may do with the schema.
type schemaRights struct {
	exists                bool
	owner, role, database string
	usage, create         bool
}

func findSchema(ctx context.Context, q querier, schema string) (r schemaRights, err error) {
	rows, err := q.Query(ctx, schemaFindSQL, schema)
	if err != nil {
		return r, fmt.Errorf("find schema: %w", err)
	}
	r, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (r schemaRights, err error) {
		err = row.Scan(&r.exists, &r.owner, &r.role, &r.database, &r.usage, &r.create)
		return r, err
	})
	if err != nil {
		return r, fmt.Errorf("find schema: %w", err)
	}
	return r, nil
}

// mayUse refuses a role that is kept out of the schema. PostgreSQL leaves such a
// schema out of the search path without a word, so that tables would be made among
// the temporary ones, and be gone with the connection.
func (r schemaRights) mayUse(schema string) error {
	if r.usage {
		return nil
	}
	return fmt.Errorf("%w: role %q may not use schema %q, which is role %q's: connect as that one, or have it say GRANT %s TO %s",
		ErrForbidden, r.role, schema, r.owner, quote(r.owner), quote(r.role))
}

// explain says what to do where PostgreSQL only says that permission was denied.
func (r schemaRights) explain(schema string, err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != "42501" {
		return err
	}
	if !r.exists {
		return fmt.Errorf("%w: role %q may make no schema in database %q: have its owner say GRANT CREATE ON DATABASE %s TO %s, or CREATE SCHEMA %s AUTHORIZATION %s: %w",
			ErrForbidden, r.role, r.database, quote(r.database), quote(r.role), quote(schema), quote(r.role), err)
	}
	return fmt.Errorf("%w: role %q needs SELECT, INSERT, UPDATE and DELETE on all tables of schema %q and USAGE on its sequences, and to migrate it must own them: "+
		"connect as role %q, or have it say GRANT %s TO %s: %w",
		ErrForbidden, r.role, schema, r.owner, quote(r.owner), quote(r.role), err)
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
