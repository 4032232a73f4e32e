package queen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"queenmq/store/storetest"
)

func TestTopicsStoreBatchesInTheirOwnCodec(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	for codec, name := range codecNames {
		if codec == 0 {
			name = "uncompressed"
		}
		o := TopicOptions()
		o.Compression = name
		o.Configs = map[string]string{"compression.gzip.level": "1", "compression.zstd.level": "-5", "compression.lz4.level": "17"}
		if _, err := e.CreateQueue(t.Context(), NewQueue{Name: name, Partitions: 1, Options: o}); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i, from := range allCodecs {
			appendBatch(t, e, at(name, 0), pairsBatch(t, min(from, codecZstd), pair{"a", strings.Repeat("xyz", 30_000)}, pair{"b", ""}))
			want = append(want, fmt.Sprintf("%d a=%s", 2*i, strings.Repeat("xyz", 30_000)), fmt.Sprintf("%d b=", 2*i+1))
		}
		wantContents(t, e, name, want...)
		a, err := e.Read(t.Context(), ReadRequest{Items: []ReadItem{{Partition: at(name, 0), CurrentEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}}, MaxBytes: 1 << 20})
		if err != nil || len(a[0].Batches) != len(allCodecs) {
			t.Fatalf("%d batches, %v", len(a[0].Batches), err)
		}
		for _, b := range a[0].Batches {
			if info, err := checkBatch(slices.Clone(b), batchLimits{1 << 20, 1 << 20}); err != nil || info.Codec != int8(codec) {
				t.Errorf("%s: codec %d, %v", name, info.Codec, err)
			}
		}
	}
	// What a batch decompresses to has a limit of its own.
	o := TopicOptions()
	o.Configs = map[string]string{"max.decompressed.message.bytes": "10000"}
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: "flat", Partitions: 1, Options: o}); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]error{9_000: nil, 11_000: ErrTooLarge} {
		batch := pairsBatch(t, codecGzip, pair{"a", strings.Repeat("x", size)})
		if _, err := e.Append(t.Context(), []AppendItem{{Partition: at("flat", 0), Batch: batch}})[0].Result(t.Context()); !errors.Is(err, want) {
			t.Errorf("%d bytes where 10,000 are allowed after decompression: %v, want %v", size, err, want)
		}
	}
	// The limit holds for what is stored, too.
	o = TopicOptions()
	o.Compression, o.MaxMessageBytes = "uncompressed", 10_000
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: "small", Partitions: 1, Options: o}); err != nil {
		t.Fatal(err)
	}
	batch := pairsBatch(t, codecZstd, pair{"a", strings.Repeat("x", 20_000)})
	if _, err := e.Append(t.Context(), []AppendItem{{Partition: at("small", 0), Batch: batch}})[0].Result(t.Context()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("20,000 bytes where 10,000 are allowed: %v, want ErrTooLarge", err)
	}
	if n := e.writer.budget.taken(); n != 0 {
		t.Errorf("%d bytes are taken by nothing", n)
	}
}

// taken is what is accepted and not stored.
func (b *budget) taken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// TestWhoIsAnsweredHoldsNothing: what an append took of the bound is given back before its
// answer, or its client's next one may have to wait for it.
func TestWhoIsAnsweredHoldsNothing(t *testing.T) {
	t.Parallel()
	w := &writer{budget: newBudget(1)} // of which nothing is taken: to give back is a mistake, where complete stops
	e := &entry{batch: []byte("b"), held: 1, pending: &Pending{done: make(chan struct{})}}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing was given back")
			}
		}()
		w.complete(e, Appended{}, nil)
	}()
	if e.done() {
		t.Error("it was answered first")
	}
}

// TestRecompressedBatchesCountAsTheyAreStored: what is small as sent and large as stored
// does not get past the bound on what is accepted.
func TestRecompressedBatchesCountAsTheyAreStored(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	e := openEngine(t, storetest.New(t), func(c *Config) { c.PendingBytesMax = 2 << 20 })
	o := TopicOptions()
	o.Compression = "uncompressed"
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: "t", Partitions: 1, Options: o}); err != nil {
		t.Fatal(err)
	}
	p, err := e.catalog.partition(t.Context(), at("t", 0))
	if err != nil {
		t.Fatal(err)
	}
	release, err := e.writer.turns(t.Context(), []*partition{p}) // nothing is stored meanwhile
	if err != nil {
		t.Fatal(err)
	}
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	var pending []*Pending
	for range 100 {
		item := AppendItem{Partition: at("t", 0), Batch: pairsBatch(t, codecGzip, pair{"a", strings.Repeat("x", size)})}
		one := e.Append(gone, []AppendItem{item})[0]
		select {
		case <-one.Done():
			if _, err := one.Result(t.Context()); !errors.Is(err, ErrOverloaded) {
				t.Fatalf("batch %d: %v", len(pending), err)
			}
		default:
			pending = append(pending, one)
		}
	}
	if n := len(pending); n == 0 || n*size > 2<<20 || e.writer.budget.taken() < n*size {
		t.Errorf("%d batches of %d bytes are accepted, where %d bytes may be; %d are counted", n, size, 2<<20, e.writer.budget.taken())
	}
	release()
	for _, one := range pending {
		if _, err := one.Result(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := e.writer.budget.taken(); n != 0 {
		t.Errorf("%d bytes are taken by nothing", n)
	}
}
