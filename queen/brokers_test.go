package queen

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestBrokerWhoseIDWasTakenSaysWhoHasIt(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	var log lines
	first := uuid.New()
	e := openEngine(t, db, func(c *Config) {
		c.Broker.ID, c.Broker.Instance = 7, first
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	if _, err := db.Register(t.Context(), store.BrokerRow{Instance: uuid.New(), Host: "copy.example", Port: 99}, 7, first); err != nil {
		t.Fatal(err)
	}
	for e.Cluster().Self == 7 || !strings.Contains(log.String(), "lost its id") {
		if err := e.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprintf("id=%d was=7 cause=\"the broker at copy.example:99 has it", e.Cluster().Self)
	if got := log.String(); !strings.Contains(got, want) || strings.Count(got, "lost its id") != 1 {
		t.Errorf("want one line with %s:\n%s", want, got)
	}
}

func TestWhatPostgreSQLSaidIsNotForClients(t *testing.T) {
	t.Parallel()
	cause := errors.New("failed to connect to `user=secret database=d`: /run/x/.s.PGSQL.5432")
	err := storeError("append", fmt.Errorf("append: %w: %w", store.ErrUnavailable, cause))
	if err.Error() != "database unavailable: append" || !errors.Is(err, ErrUnavailable) || !errors.Is(err, cause) || !told(err) {
		t.Errorf("%v", err)
	}
	if got := detail(err).Error(); !strings.Contains(got, "user=secret") || strings.Count(got, "database unavailable") != 1 {
		t.Errorf("for the log: %s", got)
	}
}

// Background work on a partition falls to one of the live brokers, to each about
// as often, and moves only with a broker that goes.
func TestPartitionsAreSharedOut(t *testing.T) {
	t.Parallel()
	taker := func(partition int64, ids ...int32) (taker int32) {
		t.Helper()
		var live []store.BrokerRow
		for _, id := range ids {
			live = append(live, store.BrokerRow{ID: id})
		}
		for _, id := range ids {
			b := &brokers{self: id, live: live}
			if b.takes(partition) {
				if taker != 0 {
					t.Fatalf("partition %d is taken by %d and %d", partition, taker, id)
				}
				taker = id
			}
		}
		if taker == 0 {
			t.Fatalf("nobody takes partition %d", partition)
		}
		return taker
	}
	share := map[int32]int{}
	for partition := range int64(3000) {
		of := taker(partition, 1, 2, 3)
		share[of]++
		if now := taker(partition, 1, 3); of != 2 && now != of {
			t.Fatalf("partition %d moves from %d to %d when broker 2 goes", partition, of, now)
		}
	}
	for id, n := range share {
		if n < 800 || n > 1200 {
			t.Errorf("broker %d takes %d of 3000", id, n)
		}
	}
	if b := (&brokers{self: 7}); !b.takes(1) {
		t.Error("a broker whose own heartbeat is late takes nothing")
	}
}
