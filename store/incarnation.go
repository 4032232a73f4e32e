package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed query/incarnation_observe.sql
var incarnationObserveSQL string

//go:embed query/server_check.sql
var serverCheckSQL string

// Incarnation tells one life of the database from another: after a failover to
// a standby or a restore from a backup what a broker remembers may never have
// happened. The epoch tells them apart. System identifier and timeline are for people:
// a dump restored in place, or files put back, have those of the life that is lost.
type Incarnation struct {
	ClusterID uuid.UUID // of the schema; the same in all incarnations
	SystemID  int64     // of the server's data directory
	Timeline  int64
	Epoch     int32 // leader epoch: raised with each incarnation, from 1
}

// Incarnation returns the newest incarnation a connection has met.
func (db *DB) Incarnation() Incarnation {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.incarnation
}

// pulse is a heartbeat of this process that the database has confirmed: one that
// does not know of it is not the database it was. See DESIGN.md, D7.
type pulse struct {
	epoch    int32 // of the connection that confirmed it
	broker   int32
	instance uuid.UUID
	beats    int64
}

// lastPulse is the last heartbeat confirmed in the newest incarnation, or nil.
func (db *DB) lastPulse() *pulse {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.pulse
}

// felt takes over a heartbeat that was confirmed, unless on a connection that is over.
func (db *DB) felt(p pulse) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if p.epoch == db.incarnation.Epoch {
		db.pulse = &p
	}
}

// missed is said of the last pulse when the database does not know of it: its
// epoch is over, and all connections are opened anew.
func (db *DB) missed(p *pulse) {
	db.mu.Lock()
	if p.epoch < db.floor {
		db.mu.Unlock()
		return // by another heartbeat
	}
	db.floor = p.epoch + 1
	db.epoch.Store(db.floor)
	db.mu.Unlock()
	db.cfg.Log.Warn("the database does not know of this broker's last heartbeat: it was restored, or another broker has taken the id; connecting anew",
		"broker", p.broker, "heartbeats", p.beats)
	db.reset()
}

// observe tells the database which incarnation it is and learns its epoch. The
// lowest epoch that can be taken goes along: a restored database remembers a lower one.
func (db *DB) observe(ctx context.Context, conn *pgx.Conn) (Incarnation, error) {
	var inc Incarnation
	db.mu.Lock()
	floor := db.floor
	db.mu.Unlock()
	err := conn.QueryRow(ctx, incarnationObserveSQL, floor).
		Scan(&inc.ClusterID, &inc.SystemID, &inc.Timeline, &inc.Epoch)
	if err != nil {
		var pe *pgconn.PgError
		if errors.As(err, &pe) && (pe.Code == "42883" || pe.Code == "42P01" || pe.Code == "3F000") {
			return inc, fmt.Errorf("%w: schema %q has no such function (%s); run the migration", ErrNotMigrated, db.cfg.Schema, pe.Message)
		}
		return inc, fmt.Errorf("observe incarnation: %w", err)
	}
	db.mu.Lock()
	// A connection to a server that was replaced meanwhile may come in late.
	changed := inc != db.incarnation && inc.Epoch >= db.incarnation.Epoch
	if changed {
		db.incarnation, db.pulse = inc, nil
		db.floor = max(db.floor, inc.Epoch)
		db.epoch.Store(db.floor)
	}
	db.mu.Unlock()
	if changed {
		db.cfg.Log.Info("database incarnation", "cluster", inc.ClusterID, "system", inc.SystemID, "timeline", inc.Timeline, "epoch", inc.Epoch)
		if db.cfg.OnIncarnation != nil {
			db.cfg.OnIncarnation(inc)
		}
	}
	return inc, nil
}

// pinnedWords are the settings of pin that make an answer true or false, rather than
// late, and are read back as they were set.
var pinnedWords = []string{"search_path", "default_transaction_isolation", "synchronous_commit", "client_min_messages", "client_encoding"}

// checkServer refuses servers on which the promises of this package do not hold.
func checkServer(ctx context.Context, conn *pgx.Conn, cfg Config) error {
	var version int
	var fsync, fullPageWrites, encoding string
	var words []string
	if err := conn.QueryRow(ctx, serverCheckSQL, pinnedWords).Scan(&version, &fsync, &fullPageWrites, &encoding, &words, nil, nil); err != nil {
		return fmt.Errorf("check server: %w", err)
	}
	if version < serverVersionMin {
		return fmt.Errorf("%w: the server is PostgreSQL %s, %s or newer is needed",
			ErrUnsupportedServer, formatVersion(version), formatVersion(serverVersionMin))
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: the database's encoding is %s; create one with ENCODING 'UTF8' TEMPLATE template0", ErrUnsupportedServer, encoding)
	}
	for _, s := range []struct{ name, value string }{{"fsync", fsync}, {"full_page_writes", fullPageWrites}} {
		if s.value != "on" && !cfg.UnsafeDatabase {
			return fmt.Errorf("%w: the server runs with %s=%s, so acknowledged messages can be lost; "+
				"run ALTER SYSTEM SET %s = on and SELECT pg_reload_conf(), or allow it with --unsafe-database",
				ErrUnsafeDatabase, s.name, s.value, s.name)
		}
	}
	for i, name := range pinnedWords {
		if want := conn.Config().RuntimeParams[name]; words[i] != want {
			return fmt.Errorf("%w: the connection was opened with %s=%s and has %s: something in between, a pooler mostly, drops what connections ask for; "+
				"connect to PostgreSQL itself", ErrUnsupportedServer, name, want, words[i])
		}
	}
	return nil
}

// formatVersion prints a server_version_num of PostgreSQL 10 or newer.
func formatVersion(num int) string {
	if num%10000 == 0 {
		return strconv.Itoa(num / 10000)
	}
	return strconv.Itoa(num/10000) + "." + strconv.Itoa(num%10000)
}
