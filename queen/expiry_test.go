package queen

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"queenmq/store/storetest"
)

// A group that consumes natively keeps its position for ever, also where a Kafka
// client once committed for it; one of Kafka's loses its own after the retention.
func TestANativeGroupKeepsItsPositionForEver(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	for _, id := range []string{"1", "2", "3"} {
		pushOne(t, e, "q", id)
	}
	for _, group := range []string{"both", "kafka"} {
		got, err := e.CommitOffsets(t.Context(), group, e.Coordinator(group).Fence, []Cursor{{Partition: at("q", 0), Offset: 1, Epoch: -1}})
		if err != nil || got[0].Err != nil {
			t.Fatal(got, err)
		}
	}
	for _, group := range []string{"both", "native"} {
		ackAll(t, e, popBatch(t, e, PopRequest{Queue: "q", Group: group, Lease: time.Hour}), AckCompleted)
	}
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `UPDATE cursors SET committed_at = committed_at - interval '30 days'`); err != nil {
		t.Fatal(err)
	}
	var old []string
	week := 7 * 24 * time.Hour
	if err := e.OldOffsets(t.Context(), week, func(group string) error { old = append(old, group); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(old, []string{"kafka"}) {
		t.Fatalf("old positions have %q", old)
	}
	for group, want := range map[string]int64{"both": 2, "native": 1, "kafka": -1} {
		if _, err := e.ExpireOffsets(t.Context(), group, e.Coordinator(group).Fence, Expiry{Age: week, Seen: week}); err != nil {
			t.Fatal(err)
		}
		got, err := e.FetchOffsets(t.Context(), group, []PartitionRef{at("q", 0)})
		if err != nil || got[0].Offset != want {
			t.Errorf("%q is at %+v, %v; want %d", group, got, err, want)
		}
	}
	if _, err := e.ExpireOffsets(t.Context(), "both", Fence{Slot: 1, Epoch: 99}, Expiry{}); !errors.Is(err, ErrNotCoordinator) {
		t.Errorf("under an epoch of nobody: %v", err)
	}
}

// However many groups there are, each is looked at once, in bounded steps.
func TestOldOffsetsLooksAtEveryGroup(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	createTopic(t, e, "t", 1)
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `
		INSERT INTO cursors (partition_id, group_name, next_offset, kafka, committed_at)
		SELECT p.id, 'g' || n, 0, true, now() - interval '1 hour' FROM log_partitions p, generate_series(1, $1::integer) n`,
		2*expiryGroupsMax); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	if err := e.OldOffsets(t.Context(), time.Hour, func(group string) error { seen[group]++; return nil }); err != nil {
		t.Fatal(err)
	}
	for group, n := range seen {
		if n != 1 {
			t.Errorf("%q was looked at %d times", group, n)
		}
	}
	if len(seen) != 2*expiryGroupsMax {
		t.Errorf("%d groups, want %d", len(seen), 2*expiryGroupsMax)
	}
	stop := errors.New("stop")
	if err := e.OldOffsets(context.WithoutCancel(t.Context()), time.Hour, func(string) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the caller's: %v", err)
	}
	if err := e.GroupsSeen(t.Context(), make([]string, 3), time.Hour); err != nil {
		t.Error(err)
	}
}
