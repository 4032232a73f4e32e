package queen

import (
	"encoding/binary"
	"errors"
	"testing"

	"queenmq/store/storetest"
)

// TestLostAnswersOfChanges: who changes queues and groups is told what its call did,
// though the answer of its first attempt was lost, and not what a second call would
// have found: the name taken, the queue gone.
func TestLostAnswersOfChanges(t *testing.T) {
	t.Parallel()
	l, db := openLossy(t)
	e := openEngine(t, db)
	losing := func(what, text string, change func() error) {
		t.Helper()
		before := l.count()
		l.lose(text)
		if err := change(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := l.count() - before; got != 1 {
			t.Errorf("%s: %d answers were lost, want 1", what, got)
		}
	}
	// number is an integer as it lies among the arguments of a call.
	number := func(n int64, size int) string {
		b := binary.BigEndian.AppendUint32(nil, uint32(size))
		return string(append(b, binary.BigEndian.AppendUint64(nil, uint64(n))[8-size:]...))
	}
	// The connection knows the statements by now, so what is lost is a call.
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: "first", Partitions: 1, Options: DefaultOptions()}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.AddPartitions(t.Context(), "first", 2, false); err != nil {
		t.Fatal(err)
	}
	if _, err := e.DeleteQueue(t.Context(), QueueRef{Name: "first"}); err != nil {
		t.Fatal(err)
	}

	losing("create", "lost-created", func() error {
		q, err := e.CreateQueue(t.Context(), NewQueue{Name: "lost-created", Partitions: 3, Options: DefaultOptions()})
		if q.Partitions != 3 {
			t.Errorf("created %+v", q)
		}
		return err
	})
	id := query[int64](t, db, `SELECT id FROM queues WHERE name = 'lost-created'`)
	losing("widen", number(id, 8)+number(7, 4), func() error {
		q, err := e.AddPartitions(t.Context(), "lost-created", 7, false)
		if q.Partitions != 7 {
			t.Errorf("widened to %+v", q)
		}
		return err
	})
	losing("configure", "lost-configured", func() error {
		window := 60
		c, err := e.Configure(t.Context(), "lost-configured", OptionsPatch{DedupWindowSeconds: &window})
		if !c.Created || c.Before.DedupWindowSeconds != DefaultDedupWindowSeconds || c.Queue.Options.DedupWindowSeconds != 60 {
			t.Errorf("configured %+v", c)
		}
		return err
	})
	// Each call still answers for itself, and at once: a name that is taken is no doubt.
	losing("create again", "lost-created", func() error {
		if _, err := e.CreateQueue(t.Context(), NewQueue{Name: "lost-created", Partitions: 3, Options: DefaultOptions()}); !errors.Is(err, ErrQueueExists) {
			t.Errorf("created again: %v, want ErrQueueExists", err)
		}
		return nil
	})
	if _, err := e.AddPartitions(t.Context(), "lost-created", 7, false); !errors.Is(err, ErrInvalidPartitions) {
		t.Errorf("widened again: %v, want ErrInvalidPartitions", err)
	}

	const group = "group that is lost"
	if _, err := e.CommitOffsets(t.Context(), group, e.Coordinator(group).Fence, []Cursor{{Partition: at("lost-created", 0), Epoch: -1}}); err != nil {
		t.Fatal(err)
	}
	losing("delete group", group, func() error { return e.DeleteGroupFrom(t.Context(), group, "", true) })
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `SELECT setval(pg_get_serial_sequence('dead_letters', 'id'), 77777777)`); err != nil {
		t.Fatal(err)
	}
	bury(t, e, "dead", "g", 3)
	losing("purge dead letters", number(query[int64](t, db, `SELECT min(id) FROM dead_letters`), 8), func() error {
		n, err := e.PurgeDeadLetters(t.Context(), DeadQuery{Queue: "dead"})
		if n != 3 {
			t.Errorf("%d dead letters are gone, want 3", n)
		}
		return err
	})
	losing("delete", number(id, 8)+"\x00\x01", func() error { // the last argument; then comes the form of the answer
		q, err := e.DeleteQueue(t.Context(), QueueRef{Name: "lost-created"})
		if q.Name != "lost-created" {
			t.Errorf("deleted %+v", q)
		}
		return err
	})
	if rows, err := db.Queues(t.Context(), []string{"lost-created"}, nil); err != nil || len(rows) != 0 {
		t.Errorf("%v, %v: not deleted", rows, err)
	}
}
