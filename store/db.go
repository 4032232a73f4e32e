package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultSchema is the schema used where Config names none.
const DefaultSchema = "queen"

// serverVersionMin is the oldest PostgreSQL served, as server_version_num.
const serverVersionMin = 140000

// Config says which database to use, and how. The zero value of a field means
// its default.
type Config struct {
	// URL is a PostgreSQL connection string, several hosts included.
	URL string
	// Schema holds every table and function; default "queen".
	Schema string

	// Connections of each pool at most: writes, reads, and everything rare. They
	// are apart so that reading cannot starve commits. Defaults 8, 4 and 3.
	WriteConns, ReadConns, AdminConns int

	// ConnectTimeout bounds one attempt to reach one host; default 3 s.
	ConnectTimeout time.Duration
	// StatementTimeout bounds a statement on the server; default 10 s.
	StatementTimeout time.Duration
	// LockTimeout bounds a wait for one lock, and is below StatementTimeout;
	// default 2 s.
	LockTimeout time.Duration

	// UnsafeDatabase accepts a server that runs with fsync or full_page_writes
	// off, which loses acknowledged messages when the machine stops.
	UnsafeDatabase bool
	// Scratch marks the schema, when Migrate creates it, as one whose functions
	// may be replaced when their text changes. It has no effect on a schema that exists.
	Scratch bool

	// Application is "<version>/<broker>", seen as application_name queen/….
	Application string
	// Log receives what a caller cannot be told; default discards.
	Log *slog.Logger
	// OnIncarnation is called when a connection met another incarnation of the
	// database than the one before, the first one included. It must not block.
	OnIncarnation func(Incarnation)
}

// withDefaults returns a copy in which nothing is left to guess.
func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	defTime := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	def(&c.WriteConns, 8)
	def(&c.ReadConns, 4)
	def(&c.AdminConns, 3)
	defTime(&c.ConnectTimeout, 3*time.Second)
	defTime(&c.StatementTimeout, 10*time.Second)
	defTime(&c.LockTimeout, 2*time.Second)
	if c.Application == "" {
		c.Application = "dev"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate refuses what could not work, naming field, value and range.
func (c Config) validate() error {
	for _, f := range []struct {
		name string
		n    int
	}{{"WriteConns", c.WriteConns}, {"ReadConns", c.ReadConns}, {"AdminConns", c.AdminConns}} {
		if f.n < 1 || f.n > 1000 {
			return fmt.Errorf("%s is %d, must be 1 to 1000", f.name, f.n)
		}
	}
	if len(c.Schema) > 63 || strings.ContainsRune(c.Schema, 0) || strings.HasPrefix(c.Schema, "pg_") {
		return fmt.Errorf("Schema is %q, must be at most 63 bytes and not begin with pg_", c.Schema)
	}
	if c.ConnectTimeout < time.Second {
		return fmt.Errorf("ConnectTimeout is %v, must be at least 1s", c.ConnectTimeout)
	}
	if c.LockTimeout < time.Millisecond || c.LockTimeout >= c.StatementTimeout {
		return fmt.Errorf("LockTimeout is %v, must be at least 1ms and below StatementTimeout (%v)", c.LockTimeout, c.StatementTimeout)
	}
	return nil
}

// DB is the ledger: three pools of connections to one schema.
type DB struct {
	cfg                Config
	write, read, admin *pgxpool.Pool
	longs              chan struct{} // holds one per long call under way, see long
	bulk               chan struct{} // holds one per read of segments under way, see Read

	failures failures // what the log is told

	poolerKeeps  atomic.Bool // a pooler in between was seen to keep a server process for each connection
	poolerShares atomic.Bool // and one to give a connection another: nothing is asked of it any more

	// resets counts how often the idle connections were dropped; a connection
	// remembers the count it was opened under, so that each loss resets once.
	resets atomic.Int64

	mu          sync.Mutex
	incarnation Incarnation  // the newest one met; guarded by mu
	pulse       *pulse       // confirmed in that one, or nil; guarded by mu
	floor       int32        // the lowest epoch that can be taken; guarded by mu
	epoch       atomic.Int32 // the same, for prepareConn
}

// Open connects to a migrated schema. It fails where the database cannot be
// reached (ErrUnavailable), is too old or not durable (ErrUnsafeDatabase), or
// its schema is not the one of this binary (ErrNotMigrated, ErrNewerSchema).
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	db := &DB{cfg: cfg, failures: failures{log: cfg.Log}, longs: make(chan struct{}, max(1, cfg.AdminConns-1)), bulk: make(chan struct{}, max(1, cfg.ReadConns-1))}
	for _, p := range []struct {
		pool  **pgxpool.Pool
		conns int
	}{{&db.admin, cfg.AdminConns}, {&db.read, cfg.ReadConns}, {&db.write, cfg.WriteConns}} {
		pool, err := db.newPool(ctx, p.conns)
		if err != nil {
			db.Close()
			return nil, fmt.Errorf("open database: %w", err)
		}
		*p.pool = pool
	}
	conn, err := db.admin.Acquire(ctx)
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("open database: %w", openError(err))
	}
	missing, err := missingFunctions(ctx, conn, FunctionNames())
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: schema %q lacks %s; run the migration", ErrNotMigrated, cfg.Schema,
			strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	if err != nil {
		err = lostError(err, conn.Conn().IsClosed())
		conn.Release()
		db.Close()
		return nil, fmt.Errorf("open database: %w", err)
	}
	conn.Release()
	return db, nil
}

// Config returns the configuration in force, defaults filled in.
func (db *DB) Config() Config { return db.cfg }

// Close closes all connections, waiting for those in use.
func (db *DB) Close() {
	for _, p := range []*pgxpool.Pool{db.write, db.read, db.admin} {
		if p != nil {
			p.Close()
		}
	}
}

// newPool makes one of the three pools. Nothing is connected yet.
func (db *DB) newPool(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(db.cfg.URL)
	if err != nil {
		return nil, err
	}
	db.cfg.pin(&pc.ConnConfig.Config)
	pc.ConnConfig.OnNotice = onNotice
	pc.AfterConnect = db.afterConnect
	pc.PrepareConn = db.prepareConn
	pc.MaxConns = int32(conns)
	pc.MinConns = 0
	pc.MinIdleConns = 0
	pc.MaxConnLifetime = time.Hour
	pc.MaxConnLifetimeJitter = 5 * time.Minute
	pc.HealthCheckPeriod = 5 * time.Second
	pc.PingTimeout = time.Second
	return pgxpool.NewWithConfig(ctx, pc)
}

// pin sets what this package relies on, whatever the URL, the role or
// the server's configuration say. See DESIGN.md, D3 and D4.
func (c Config) pin(cc *pgconn.Config) {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	for name, value := range map[string]string{
		"application_name":                    "queen/" + c.Application,
		"search_path":                         pgx.Identifier{c.Schema}.Sanitize() + ",pg_temp",
		"client_encoding":                     "UTF8",
		"client_min_messages":                 "warning", // onNotice must hear of commits that skipped their standby
		"extra_float_digits":                  "1",       // a number that is stored as text keeps its value
		"default_transaction_isolation":       "read committed",
		"synchronous_commit":                  "on",
		"plan_cache_mode":                     "force_generic_plan",
		"jit":                                 "off",
		"enable_seqscan":                      "off",
		"enable_bitmapscan":                   "off",
		"statement_timeout":                   ms(c.StatementTimeout),
		"lock_timeout":                        ms(c.LockTimeout),
		"idle_in_transaction_session_timeout": "5000",
		"tcp_keepalives_idle":                 "30",
		"tcp_keepalives_interval":             "10",
		"tcp_keepalives_count":                "3",
	} {
		cc.RuntimeParams[name] = value
	}
	cc.ConnectTimeout = c.ConnectTimeout
	cc.DialFunc = dialer(c.ConnectTimeout).DialContext
	cc.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
}

// session is what is remembered of a connection, in its CustomData.
type session struct {
	incarnation Incarnation
	resets      int64  // DB.resets when it was opened
	backend     uint32 // the server process it was opened to
	// unreplicated is set by a notice that a commit is durable here, but that
	// waiting for the synchronous standby was given up. Written and read by
	// whoever holds the connection: notices arrive while it reads.
	unreplicated bool
}

const sessionKey = "queen"

// sessionOf returns what is remembered of a pooled connection.
func sessionOf(conn *pgx.Conn) *session {
	s, ok := conn.PgConn().CustomData()[sessionKey].(*session)
	if !ok {
		panic("BUG: a connection that did not pass afterConnect")
	}
	return s
}

// incarnationOf returns the incarnation a pooled connection belongs to. A
// connection does not outlive its server, so this never changes.
func incarnationOf(conn *pgx.Conn) Incarnation { return sessionOf(conn).incarnation }

// afterConnect checks the server and meets its incarnation.
func (db *DB) afterConnect(ctx context.Context, conn *pgx.Conn) error {
	s := &session{resets: db.resets.Load()}
	conn.PgConn().CustomData()[sessionKey] = s
	registerArrays(conn.TypeMap())
	if err := db.checkPooler(ctx, conn, s); err != nil {
		return err
	}
	if err := checkServer(ctx, conn, db.cfg); err != nil {
		return err
	}
	inc, err := db.observe(ctx, conn)
	if err != nil {
		return err
	}
	s.incarnation = inc
	return nil
}

// checkPooler refuses a pooler that does not keep a server process for each connection.
// It is tried out once; each heartbeat looks again.
func (db *DB) checkPooler(ctx context.Context, conn *pgx.Conn, s *session) (err error) {
	if db.poolerShares.Load() {
		return errShared
	}
	var pooled bool
	if s.backend, pooled, err = meetBackend(ctx, conn); err != nil || !pooled || db.poolerKeeps.Load() {
		return err
	}
	if err = refuseShared(ctx, conn, s.backend); err == nil {
		db.poolerKeeps.Store(true)
	}
	return err
}

// prepareConn refuses a connection to an incarnation that is over: a server
// that was replaced but still answers must not be written to, nor read.
func (db *DB) prepareConn(_ context.Context, conn *pgx.Conn) (bool, error) {
	return incarnationOf(conn).Epoch >= db.epoch.Load(), nil
}

// onNotice watches for the one notice that changes the meaning of a success:
// the commit did not wait for the synchronous standby. It is known by the
// routine that raised it, because its text is translated.
func onNotice(pc *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine != "SyncRepWaitForLSN" {
		return
	}
	if s, ok := pc.CustomData()[sessionKey].(*session); ok {
		s.unreplicated = true
	}
}

// lost is told about every error met on a connection. Where the server went
// away, or is no primary any more, all idle connections are dropped at once: a
// promoted standby must be found now, not after one failure per connection.
func (db *DB) lost(conn *pgx.Conn, err error) {
	if err == nil || !isLoss(conn.IsClosed(), err) {
		return
	}
	opened := sessionOf(conn).resets
	if !db.resets.CompareAndSwap(opened, opened+1) {
		return // opened before the last reset: dropped already
	}
	db.reset()
}

// reset has all connections opened anew, those in use when they are given back.
func (db *DB) reset() {
	for _, p := range []*pgxpool.Pool{db.write, db.read, db.admin} {
		p.Reset()
	}
}

// isLoss says whether err means that other connections are gone too.
func isLoss(closed bool, err error) bool {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code == "25006" || strings.HasPrefix(pe.Code, "57P0")
	}
	// A connection that broke by itself; one closed because its caller's
	// context ended says nothing about the others.
	return closed && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
