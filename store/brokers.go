package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/broker_register.sql
	brokerRegisterSQL string
	//go:embed query/broker_heartbeat.sql
	brokerHeartbeatSQL string
	//go:embed query/broker_list.sql
	brokerListSQL string
	//go:embed query/broker_delete.sql
	brokerDeleteSQL string
	//go:embed query/broker_others.sql
	brokerOthersSQL string
)

// BrokerDeadAfter is how long a broker counts as alive after its last
// heartbeat, by the database's clock.
const BrokerDeadAfter = 5 * time.Second

// AnyBrokerID lets Register choose the id.
const AnyBrokerID int32 = -1

// BrokerRow is a registered broker.
type BrokerRow struct {
	ID          int32
	Instance    uuid.UUID // of the process; another one after each start
	Host        string    // where clients reach it
	Port        int32
	PeerAddr    string // host:port, where other brokers reach it; empty: nowhere
	Version     string
	Functions   []string // the numbered functions it calls; Register fills them in
	StartedAt   time.Time
	HeartbeatAt time.Time
}

// fields are the places to scan a broker's columns into.
func (b *BrokerRow) fields() []any {
	return []any{&b.ID, &b.Instance, &b.Host, &b.Port, &b.PeerAddr, &b.Version, &b.Functions, &b.StartedAt, &b.HeartbeatAt}
}

// Register takes an id for the broker b (Instance, Host, Port, PeerAddr and Version count):
// the one wanted, or with AnyBrokerID the lowest free one from 1. previous is the
// instance the process had before its restart, as its data folder remembers, or
// zero: its row is taken over although its heartbeat is fresh. Where another
// live broker has the wanted id the error is ErrExists.
func (db *DB) Register(ctx context.Context, b BrokerRow, wanted int32, previous uuid.UUID) (id int32, err error) {
	type answer struct {
		status int16
		row    BrokerRow
	}
	scan := func(row pgx.CollectableRow) (a answer, err error) {
		err = row.Scan(append([]any{&a.status}, a.row.fields()...)...)
		return a, err
	}
	a, err := only(writeRows(ctx, db, db.admin, "register broker", scan, brokerRegisterSQL,
		wanted, b.Instance, previous, b.Host, b.Port, b.PeerAddr, b.Version, FunctionNames(), BrokerDeadAfter.Milliseconds()))
	if err != nil {
		return 0, err
	}
	if a.status != 0 {
		return 0, fmt.Errorf("broker id %d: %w: a broker at %s:%d (version %s, last heartbeat %s) has it; "+
			"choose another id, or wait %v after that broker ended",
			wanted, ErrExists, a.row.Host, a.row.Port, a.row.Version, a.row.HeartbeatAt.Format(time.RFC3339), BrokerDeadAfter)
	}
	return a.row.ID, nil
}

// Heartbeat says that the broker is alive. ok is false when the id is another's
// by now, because this broker was silent for too long. A database that does not
// know of the heartbeat before is another one: it becomes another incarnation. One that
// was made unsafe meanwhile is not used until it is safe again, and one behind a pooler
// that shares server processes is not used any more.
func (db *DB) Heartbeat(ctx context.Context, id int32, instance uuid.UUID) (ok bool, err error) {
	before := db.lastPulse() // from before it is sent: two may be under way
	safe := true
	var backend uint32
	scan := func(row pgx.CollectableRow) (beats int64, err error) {
		err = row.Scan(&beats, &safe, &backend)
		return beats, err
	}
	answered := func(verb string, conn *pgx.Conn, err error) error {
		if backend != 0 && backend != sessionOf(conn).backend {
			db.poolerShares.Store(true)
			db.reset()
		}
		return db.writeError(verb, conn, err)
	}
	rows, epoch, err := collect(ctx, db, db.admin, "heartbeat", answered, scan, brokerHeartbeatSQL, []any{id, instance})
	if err != nil {
		return false, err
	}
	known := before != nil && before.epoch == epoch && before.broker == id && before.instance == instance
	if known && (len(rows) == 0 || rows[0] <= before.beats) {
		db.missed(before)
	} else if len(rows) > 0 {
		db.felt(pulse{epoch, id, instance, rows[0]})
	}
	if !safe && !db.cfg.UnsafeDatabase {
		db.reset() // those opened next say why they are refused
	}
	return len(rows) == 1, nil
}

// LiveBrokers returns the brokers that are alive, ordered by id.
func (db *DB) LiveBrokers(ctx context.Context) ([]BrokerRow, error) {
	scan := func(row pgx.CollectableRow) (b BrokerRow, err error) {
		err = row.Scan(b.fields()...)
		return b, err
	}
	return readRows(ctx, db, db.admin, "list brokers", scan, brokerListSQL, BrokerDeadAfter.Milliseconds())
}

// brokerGoneAfter is how long a process that is silent may yet go on, with a call
// that was under way when it was paused.
const brokerGoneAfter = time.Hour

// Registrations counts the registrations of brokers: where it differs between two
// moments, one was registered in between.
type Registrations struct {
	Incarnation int32 // the epoch of the connection that answered
	Count       int64
}

// Registrations says how often a broker was registered, and whether a process other
// than instance may write. Between two moments at which none may, and with the same
// registrations, none could.
func (db *DB) Registrations(ctx context.Context, instance uuid.UUID) (r Registrations, others bool, err error) {
	scan := func(row pgx.CollectableRow) (n int64, err error) {
		err = row.Scan(&n, &others)
		return n, err
	}
	rows, epoch, err := collect(ctx, db, db.read, "look for other brokers", db.readError, scan, brokerOthersSQL,
		[]any{instance, brokerGoneAfter.Milliseconds()})
	n, err := only(rows, err)
	return Registrations{epoch, n}, others, err
}

// Unregister gives the id back when the broker ends.
func (db *DB) Unregister(ctx context.Context, id int32, instance uuid.UUID) error {
	db.mu.Lock()
	db.pulse = nil // nothing to be missed
	db.mu.Unlock()
	_, err := writeRows(ctx, db, db.admin, "unregister broker", pgx.RowTo[int32], brokerDeleteSQL, id, instance)
	return err
}
