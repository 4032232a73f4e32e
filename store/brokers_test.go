package store_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

func broker() store.BrokerRow {
	return store.BrokerRow{Instance: uuid.New(), Host: "127.0.0.1", Port: 9092, Version: "1.0"}
}

func TestRegisterGivesLowestFreeIDToOne(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	var mu sync.Mutex
	var ids []int32
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			id, err := db.Register(t.Context(), broker(), store.AnyBrokerID, uuid.UUID{})
			if err != nil {
				t.Errorf("Register: %v", err)
			}
			mu.Lock()
			ids = append(ids, id)
			mu.Unlock()
		})
	}
	wg.Wait()
	slices.Sort(ids)
	if !slices.Equal(ids, []int32{1, 2, 3, 4, 5}) {
		t.Errorf("ids are %v, want 1 to 5", ids)
	}
}

// A start that fails after it has registered is tried again by the same process.
func TestRegisterAgainIsNoConflict(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	if _, err := db.Register(t.Context(), broker(), store.AnyBrokerID, uuid.UUID{}); err != nil {
		t.Fatal(err)
	}
	b := broker()
	for _, wanted := range []int32{store.AnyBrokerID, store.AnyBrokerID, 2} {
		if id, err := db.Register(t.Context(), b, wanted, uuid.UUID{}); err != nil || id != 2 {
			t.Errorf("Register asking for %d = %d, %v; want 2", wanted, id, err)
		}
	}
}

// A database that does not know of a heartbeat it confirmed is not the one it was, even
// under connections that were never cut: tables were emptied and loaded again, say.
func TestHeartbeatThatIsForgottenEndsTheIncarnation(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	b := broker()
	id, err := db.Register(t.Context(), b, store.AnyBrokerID, uuid.UUID{})
	if err != nil {
		t.Fatal(err)
	}
	epoch := db.Incarnation().Epoch
	beat := func(registered, another bool) {
		t.Helper()
		ok, err := db.Heartbeat(t.Context(), id, b.Instance)
		if err != nil || ok != registered {
			t.Fatalf("heartbeat: %v, %v", ok, err)
		}
		if _, err := db.CatalogVersion(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := db.Incarnation().Epoch; now > epoch != another {
			t.Errorf("the epoch is %d, was %d, another one: %v", now, epoch, another)
		}
		epoch = db.Incarnation().Epoch
	}
	exec(t, pool, `CREATE TABLE backup AS TABLE brokers`)
	beat(true, false)
	beat(true, false)
	exec(t, pool, `DELETE FROM brokers`)
	exec(t, pool, `INSERT INTO brokers TABLE backup`)
	beat(true, true)
	beat(true, false)
	beat(true, false)
	exec(t, pool, `DELETE FROM brokers`)
	beat(false, true)
	beat(false, false)
	// Who leaves misses nothing.
	if _, err := db.Register(t.Context(), b, id, uuid.UUID{}); err != nil {
		t.Fatal(err)
	}
	beat(true, false)
	if err := db.Unregister(t.Context(), id, b.Instance); err != nil {
		t.Fatal(err)
	}
	beat(false, false)
}

func TestRegisterRefusesLiveIDButNotToItsSuccessor(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	first := broker()
	got, err := db.Register(t.Context(), first, 7, uuid.UUID{})
	if err != nil || got != 7 {
		t.Fatalf("Register = %d, %v; want 7", got, err)
	}
	if _, err := db.Register(t.Context(), broker(), 7, uuid.New()); !errors.Is(err, store.ErrExists) {
		t.Errorf("a stranger: %v, want ErrExists", err)
	}
	successor := broker()
	if got, err := db.Register(t.Context(), successor, store.AnyBrokerID, first.Instance); err != nil || got != 7 {
		t.Errorf("the successor: %d, %v; want 7", got, err)
	}
	if ok, err := db.Heartbeat(t.Context(), 7, first.Instance); err != nil || ok {
		t.Errorf("heartbeat of the predecessor: %v, %v; want false", ok, err)
	}
	if ok, err := db.Heartbeat(t.Context(), 7, successor.Instance); err != nil || !ok {
		t.Errorf("heartbeat: %v, %v; want true", ok, err)
	}
	live := func() (ids []int32) {
		t.Helper()
		rows, err := db.LiveBrokers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Host != "127.0.0.1" || r.Port != 9092 || r.Version != "1.0" || !slices.Equal(r.Functions, store.FunctionNames()) {
				t.Errorf("registered %+v", r)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	if ids := live(); !slices.Equal(ids, []int32{7}) {
		t.Errorf("live are %v, want 7", ids)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE brokers SET heartbeat_at = heartbeat_at - interval '5 seconds'`); err != nil {
		t.Fatal(err)
	}
	if ids := live(); len(ids) != 0 {
		t.Errorf("live after 5 s of silence are %v, want none", ids)
	}
	if got, err := db.Register(t.Context(), broker(), 7, uuid.UUID{}); err != nil || got != 7 {
		t.Errorf("a stranger after 5 s of silence: %d, %v", got, err)
	}
	if err := db.Unregister(t.Context(), 7, successor.Instance); err != nil {
		t.Error(err)
	}
	if ids := live(); !slices.Equal(ids, []int32{7}) {
		t.Errorf("live after the predecessor unregistered are %v, want 7", ids)
	}
}
