package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/store/storetest"
)

// Whoever takes the connection of a long call after it has the timeout of every other
// statement, also where the caller gave up between two statements of the call.
func TestALongCallGivesBackTheStatementTimeout(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	cfg.AdminConns = 1
	db := storetest.OpenConfig(t, cfg)
	timeout := func(conn interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	},
	) (s string) {
		t.Helper()
		if err := conn.QueryRow(context.Background(), "SHOW statement_timeout").Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	_, _, admin := db.Pools()
	usual := timeout(admin)

	ctx, giveUp := context.WithCancel(context.Background())
	err := db.Long(ctx, 7*time.Minute, func(_ context.Context, conn *pgx.Conn) error {
		if got := timeout(conn); got != "7min" {
			t.Errorf("during the call statement_timeout is %s, want 7min", got)
		}
		giveUp()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := timeout(admin); got != usual {
		t.Fatalf("after the call statement_timeout is %s, want %s as before it", got, usual)
	}
	if n := admin.Stat().NewConnsCount(); n != 1 {
		t.Fatalf("%d connections were opened: this one was not used again", n)
	}
}
