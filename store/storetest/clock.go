package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
)

// Clock is the clock that append_1 judges windows by, in the hands of a test. All other
// functions keep the server's.
type Clock struct {
	t    testing.TB
	pool *pgxpool.Pool
}

// NewClock takes over the clock of a database's schema: it goes with the server's until
// it is put elsewhere or stopped.
func NewClock(t testing.TB, db *store.DB) *Clock {
	t.Helper()
	c := &Clock{t, Pool(t, db)}
	c.exec(`CREATE TABLE the_clock (ahead interval, stopped timestamptz)`)
	c.exec(`INSERT INTO the_clock VALUES ('0', NULL)`)
	c.exec(`CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
	        'SELECT COALESCE(stopped, pg_catalog.clock_timestamp() + ahead) FROM the_clock'`)
	c.exec(`DO $$ BEGIN EXECUTE (
	          SELECT format('ALTER FUNCTION %s SET search_path = %I, pg_catalog, pg_temp', p.oid::regprocedure, current_schema())
	            FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = 'append_1'); END $$`)
	return c
}

// Put makes the clock go as far ahead of the server's as d says; behind it, if negative.
func (c *Clock) Put(d time.Duration) {
	c.t.Helper()
	c.exec(`UPDATE the_clock SET ahead = $1, stopped = NULL`, d)
}

// Stop makes the clock stand at a time.
func (c *Clock) Stop(at time.Time) {
	c.t.Helper()
	c.exec(`UPDATE the_clock SET stopped = $1`, at)
}

func (c *Clock) exec(sql string, args ...any) {
	c.t.Helper()
	if _, err := c.pool.Exec(context.Background(), sql, args...); err != nil {
		c.t.Fatal(err)
	}
}
