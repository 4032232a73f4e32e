package queen

import (
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
}
