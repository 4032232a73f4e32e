package queen

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"queenmq/store"
	"queenmq/store/storetest"
)

// TestDamagedSegmentIsToldAndHoldsUpNobodyElse has one partition of three damaged behind
// its first message, in what this package stored and in what PostgreSQL did. Requests for
// all three get the others, and the damaged one up to the damage.
func TestDamagedSegmentIsToldAndHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		set   string // of the second segment's row; empty: a page of TOAST is lost, with the first one's data
		reads []int  // messages read of the damaged partition from 0 on, and from 1 on; 0: told of damage
	}{
		{"a byte of a value", `data = set_byte(data, octet_length(data) - 10, get_byte(data, octet_length(data) - 10) # 1)`, []int{1, 0}},
		{"its end is missing", `data = substr(data, 1, octet_length(data) - 1)`, []int{1, 0}},
		{"all of it is missing", `data = ''`, []int{1, 0}},
		{"its header", `header = substr(header, 2)`, []int{1, 0}},
		{"a page of TOAST", "", []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, damage := damaging(t, c.set)
			b := openTwo(t, cfg)
			// Incompressible, and of more than a page.
			value := []byte(`"` + randomText() + `"`)
			for _, p := range []string{"b", "b", "a", "c", "a", "c"} {
				if got := b[0].Push(t.Context(), []Message{{Queue: "q", Partition: p, Value: value}})[0]; got.Err != nil {
					t.Fatal(got.Err)
				}
			}
			b.stop(t)
			damage()
			b = openTwo(t, cfg)
			defer b.stop(t)

			f, err := b[0].Fetch(t.Context(), FetchRequest{MaxBytes: 1 << 20, Items: []FetchItem{
				{Queue: "q", Partition: "a", MaxBytes: 1 << 20},
				{Queue: "q", Partition: "b", MaxBytes: 1 << 20},
				{Queue: "q", Partition: "b", Offset: 1, MaxBytes: 1 << 20},
				{Queue: "q", Partition: "c", MaxBytes: 1 << 20},
			}})
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []int{2, c.reads[0], c.reads[1], 2} {
				if len(f[i].Messages) != want || (want == 0) != errors.Is(f[i].Err, ErrCorruptBatch) {
					t.Errorf("item %d: %d messages, %v, want %d", i, len(f[i].Messages), f[i].Err, want)
				}
			}
			// By its group it is told too, and given what lies before.
			for i := range c.reads[0] + 1 {
				popped, err := b[1].Pop(t.Context(), PopRequest{Queue: "q", Partition: "b", Group: "g", Batch: 10, AutoAck: true})
				if last := i == c.reads[0]; last && !errors.Is(err, ErrCorruptBatch) || !last && (err != nil || len(popped) != 1 || len(popped[0].Messages) != 1) {
					t.Fatalf("pop %d: %d batches, %v", i, len(popped), err)
				}
			}
			// Who pops from all partitions is given all that can be read.
			got := map[string]bool{}
			for deadline := time.Now().Add(time.Minute); len(got) < 4+c.reads[0]; {
				if time.Now().After(deadline) {
					t.Fatalf("popped %v", got)
				}
				popped, err := b[1].Pop(t.Context(), PopRequest{Queue: "q", Partitions: 3, Batch: 10, Lease: time.Minute})
				if err != nil && !errors.Is(err, ErrCorruptBatch) {
					t.Fatal(err)
				}
				for _, p := range popped {
					for _, m := range p.Messages {
						if got[m.ID.String()] || !bytes.Equal(m.Value, value) {
							t.Fatal("a message was given twice, or damaged")
						}
						got[m.ID.String()] = true
					}
				}
			}
			// Writing goes on.
			for _, p := range []string{"a", "b"} {
				if got := b[0].Push(t.Context(), []Message{{Queue: "q", Partition: p, ID: []byte("new"), Value: value}})[0]; got.Err != nil || got.Offset != 2 {
					t.Errorf("push to %s: %+v", p, got)
				}
			}
		})
	}
}

// randomText does not compress, and needs more than a page of PostgreSQL.
func randomText() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	x, out := uint64(1), make([]byte, 20_000)
	for i := range out {
		x = mix(x + 1)
		out[i] = letters[x%64]
	}
	return string(out)
}

// damaging is a database, and what damages the second segment of its partition b, or
// with set empty the first page of all data.
func damaging(t *testing.T, set string) (cfg store.Config, damage func()) {
	t.Helper()
	if set != "" {
		cfg = storetest.Config(t)
		pool := storetest.Pool(t, storetest.OpenConfig(t, cfg))
		return cfg, func() {
			if _, err := pool.Exec(t.Context(), `UPDATE log_segments SET `+set+` WHERE end_offset = 1
				AND partition_id = (SELECT id FROM log_partitions WHERE name = 'b')`); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := storetest.NewServer(t)
	cfg = s.Config(t, nil)
	path := queryOne[string](t, storetest.OpenConfig(t, cfg), `SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE oid = 'log_segments'::regclass`)
	return cfg, func() {
		s.Stop(t, "fast")
		f, err := os.OpenFile(filepath.Join(s.Dir, "data", path), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 8192)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		s.Start(t)
	}
}
