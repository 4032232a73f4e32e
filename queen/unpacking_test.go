package queen

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"queenmq/store/storetest"
)

// zipped is a batch with its records compressed by gzip.
func zipped(t *testing.T, batch []byte) []byte {
	t.Helper()
	b, err := packBatch(batch[:batchHeaderLen], codecGzip, levelDefault, batch[batchHeaderLen:])
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(b[batchAtCRC:], crc32.Checksum(b[batchAtAttributes:], castagnoli))
	return b
}

// Compressed batches wait for a place to be decompressed, so that what they take for
// it has a bound; others pass by, and nothing keeps its place.
func TestCompressedBatchesWaitForAPlace(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), func(c *Config) { c.UnpackMax = 1 })
	createTopic(t, e, "t", 1)
	plain := kafkaBatch(t, 10)
	compressed := zipped(t, plain)
	appended := func(ctx context.Context, batch []byte) error {
		item := AppendItem{Partition: at("t", 0), Batch: bytes.Clone(batch)}
		_, err := e.Append(ctx, []AppendItem{item})[0].Result(t.Context())
		return err
	}
	broken := bytes.Clone(compressed)
	broken[len(broken)-1]++
	for range 3 {
		if err := appended(t.Context(), broken); !errors.Is(err, ErrCorruptBatch) {
			t.Fatalf("a broken batch: %v, want %v", err, ErrCorruptBatch)
		}
	}
	if err := appended(t.Context(), compressed); err != nil {
		t.Fatal(err)
	}

	if err := e.unpacking.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := appended(t.Context(), plain); err != nil {
		t.Fatalf("a batch that is not compressed: %v", err)
	}
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if err := appended(gone, compressed); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("a compressed batch without a place: %v, want %v", err, ErrOverloaded)
	}
	e.unpacking.give()
	if err := appended(t.Context(), compressed); err != nil {
		t.Fatal(err)
	}
}
