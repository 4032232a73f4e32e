package compat

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/compat/broker"
)

// database connects to the PostgreSQL of a data folder, as an administrator would.
func database(ctx context.Context, t *testing.T, dataDir string) *pgx.Conn {
	t.Helper()
	pg, err := broker.Postgres(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(ctx, pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(ctx)) })
	return c
}

// olderThan tells whether the oldest stored row is older than some time, by the
// database's clock, which is the one that windows go by.
func olderThan(ctx context.Context, t *testing.T, dataDir string, age time.Duration) bool {
	t.Helper()
	var older bool
	c := database(ctx, t, dataDir)
	defer c.Close(ctx)
	err := c.QueryRow(ctx, "SELECT min(created_at) < clock_timestamp() - $1::interval FROM queen.log_txns", age.String()).Scan(&older)
	if err != nil {
		t.Fatal(err)
	}
	return older
}
