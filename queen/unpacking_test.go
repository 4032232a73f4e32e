package queen

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

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
	o := TopicOptions()
	o.Compression = "zstd"
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: "packed", Partitions: 1, Options: o}); err != nil {
		t.Fatal(err)
	}
	plain := kafkaBatch(t, 10)
	compressed := zipped(t, plain)
	appended := func(ctx context.Context, batch []byte) error {
		item := AppendItem{Partition: at("t", 0), Batch: bytes.Clone(batch)}
		_, err := e.Append(ctx, []AppendItem{item})[0].Result(t.Context())
		return err
	}
	appendBatch(t, e, at("packed", 0), bytes.Clone(plain))
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
	item := AppendItem{Partition: at("packed", 0), Batch: plain}
	if _, err := e.Append(gone, []AppendItem{item})[0].Result(t.Context()); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("a batch that is to be compressed without a place: %v, want %v", err, ErrOverloaded)
	}
	e.unpacking.give()
	if err := appended(t.Context(), compressed); err != nil {
		t.Fatal(err)
	}
}

// What a fetch unpacks has a bound of its own: batches that are small as served may be
// large as messages. Who gets none of its messages gets them the next time.
func TestFetchBoundsWhatItUnpacks(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), func(c *Config) { c.ReadBytesMax = 1 << 20 })
	createTopic(t, e, "t", 2)
	large, _ := appendNative(nil, []*Message{{Value: make([]byte, 700<<10)}}, time.Now(), 1<<20)
	for partition := range int32(2) {
		for range 3 {
			appendBatch(t, e, at("t", partition), zipped(t, large))
		}
	}
	offsets := [2]int64{}
	for i, want := range [][2]int{{2, 0}, {1, 1}, {0, 2}} {
		var r FetchRequest
		for p, offset := range offsets {
			r.Items = append(r.Items, FetchItem{Queue: "t", Partition: fmt.Sprint(p), Offset: offset, MaxBytes: 1 << 20})
		}
		r.MaxBytes = 1 << 20
		got, err := e.Fetch(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for p, f := range got {
			if f.Err != nil || len(f.Messages) != want[p] {
				t.Fatalf("fetch %d, partition %d: %d messages, %v; want %d", i, p, len(f.Messages), f.Err, want[p])
			}
			for _, m := range f.Messages {
				if m.Offset != offsets[p] || len(m.Value) != 700<<10 {
					t.Fatalf("fetch %d, partition %d: offset %d of %d bytes, want offset %d", i, p, m.Offset, len(m.Value), offsets[p])
				}
				offsets[p]++
			}
		}
	}
}

// A message that is kept does not keep, or change with, the segment it was part of.
func TestDetachedMessageHasMemoryOfItsOwn(t *testing.T) {
	t.Parallel()
	text := []byte("id key value header")
	m := StoredMessage{TransactionID: text[:2], Key: text[3:6], Value: text[7:12], Headers: []Header{{Key: "h", Value: text[13:]}, {Key: "null"}}}
	own := m.detached()
	clear(text)
	if string(own.TransactionID) != "id" || string(own.Key) != "key" || string(own.Value) != "value" || string(own.Headers[0].Value) != "header" {
		t.Errorf("the message is %+v after its segment is gone", own)
	}
	if own.Headers[1].Value != nil || (&StoredMessage{}).detached().Value != nil {
		t.Error("null became empty")
	}
	if n := own.bytes(); n != 2+3+5+1+6+4 {
		t.Errorf("it counts %d bytes", n)
	}
}
