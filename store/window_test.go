package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
)

func TestWindowIsReadBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 2)
	after := int64(-1)
	read := func(part int, seconds int32) (string, store.Window) {
		t.Helper()
		var out string
		w, err := l.db.ReadWindow(t.Context(), l.parts[part], seconds, after, func(r store.WindowRow) error {
			out += fmt.Sprintf("%d–%d:", r.Base, r.End)
			for _, h := range r.Hashes {
				out += fmt.Sprintf(" %d", int(h[15])-1)
			}
			out += "; "
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out, w
	}
	if got, w := read(0, 3600); got != "" || w.End != -1 {
		t.Fatalf("empty log: %q up to %d, want nothing up to -1", got, w.End)
	}
	minted := l.segment(0, 3600, -1, -1)
	minted.Hashes = nil
	l.append(l.db, l.segment(0, 3600, 5))
	l.append(l.db, minted)
	l.append(l.db, l.segment(0, 3600, 6, -1, 7))
	l.append(l.db, l.segment(1, 3600, 8))
	got, w := read(0, 3600)
	if want := "0–0: 5; 1–2:; 3–5: 6 -1 7; "; got != want || w.End != 5 || w.Epoch != l.db.Incarnation().Epoch {
		t.Fatalf("%q up to %d, want %q up to 5", got, w.End, want)
	}
	after = 2
	if got, w := read(0, 3600); got != "3–5: 6 -1 7; " || w.End != 5 {
		t.Fatalf("%q up to %d above offset 2, want the last row", got, w.End)
	}
	after = -1
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '1 hour' WHERE base_offset < 3`)
	if got, w := read(0, 3000); got != "3–5: 6 -1 7; " || w.End != 5 {
		t.Fatalf("%q up to %d, want only the young row", got, w.End)
	}
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '1 hour'`)
	if got, w := read(0, 3000); got != "" || w.End != 5 {
		t.Fatalf("%q up to %d, want no row and the log's end", got, w.End)
	}
	stop := errors.New("enough")
	if _, err := l.db.ReadWindow(t.Context(), l.parts[0], 1<<30, -1, func(store.WindowRow) error { return stop }); !errors.Is(err, stop) {
		t.Fatalf("error %v, want the callback's", err)
	}
	if _, w := read(0, 60); w.End != 5 { // the connection is good again
		t.Fatalf("log ends at %d", w.End)
	}
}

// TestLongCallsLeaveAConnectionForShortOnes reads more windows at once than
// there are connections for rare work, none of which comes to an end.
func TestLongCallsLeaveAConnectionForShortOnes(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	l.append(l.db, l.segment(0, 3600, 5))
	id, err := l.db.Register(t.Context(), store.BrokerRow{Instance: uuid.New()}, store.AnyBrokerID, uuid.Nil)
	if err != nil {
		t.Fatal(err)
	}
	const readers = 12
	reading, end := make(chan struct{}, readers), make(chan struct{})
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			_, err := l.db.ReadWindow(t.Context(), l.parts[0], 3600, -1, func(store.WindowRow) error {
				reading <- struct{}{}
				<-end
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range l.db.Config().AdminConns - 1 {
		<-reading
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, _, err := l.db.EnsurePartition(ctx, "new", "p"); err != nil {
		t.Errorf("make a partition: %v", err)
	}
	if _, err := l.db.Heartbeat(ctx, id, uuid.Nil); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	close(end)
	all.Wait()
}
