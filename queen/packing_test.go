package queen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// order is a JSON value of about n bytes, as applications send them.
func order(r *rand.Rand, n int) []byte {
	b := []byte(`{"items":[`)
	for len(b) < n {
		b = fmt.Appendf(b, `{"sku":"%08x","quantity":%d,"price":{"amount":%d,"currency":"EUR"},"status":"shipped"},`, r.Uint32(), r.IntN(9), r.IntN(9999))
	}
	return append(b[:len(b)-1], `]}`...)
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func valuesBatch(tb testing.TB, codec int8, change func(*kmsg.RecordBatch), values ...[]byte) []byte {
	tb.Helper()
	records := make([]kmsg.Record, len(values))
	for i, v := range values {
		records[i] = kmsg.Record{OffsetDelta: int32(i), Value: v}
	}
	return encodeBatch(tb, codec, records, change)
}

// kafkaMarks are the marks of Kafka batches, one after another.
func kafkaMarks(tb testing.TB, batches ...[]byte) (marks []batchMark, data []byte) {
	tb.Helper()
	for _, b := range batches {
		info, err := lookBatch(b)
		if err != nil {
			tb.Fatal(err)
		}
		marks, data = append(marks, kafkaMark(info, len(b), idsMinted)), append(data, b...)
	}
	return marks, data
}

// A packed batch as the format says it, its block put together by the rules of
// Snappy, of which S2 is an extension: literals and copies.
func TestPackedBatchIsPinned(t *testing.T) {
	t.Parallel()
	b := valuesBatch(t, codecNone, nil, bytes.Repeat([]byte("queen"), 100))
	const run = 200 // within the value: it repeats what lies 5 bytes before
	at := bytes.Index(b, []byte("queenqueen")) + 5
	block := binary.AppendUvarint(nil, uint64(len(b)))
	literal := func(p []byte) {
		for len(p) > 0 {
			n := min(len(p), 60)
			block = append(append(block, byte(n-1)<<2), p[:n]...)
			p = p[n:]
		}
	}
	literal(b[:at])
	for range run / 50 {
		block = append(block, (50-1)<<2|2, 5, 0) // copy 50 bytes from 5 before
	}
	literal(b[at+run:])
	row := append(binary.BigEndian.AppendUint32(nil, uint32(len(block))), block...)
	marks, _ := kafkaMarks(t, b)
	marks[0].Flags = flagPacked
	header := appendSegmentHeader(nil, goldenBase, marks)
	if header[len(header)-13] != 4 {
		t.Errorf("flags % x, want 00 04\n%s", header[len(header)-14:len(header)-12], formatChanged)
	}
	s := mustLoad(t, 0, 0, header, row)
	patchBatch(b, 0, 7)
	if !bytes.Equal(s.batches[0].data, b) || s.batches[0].mark.Flags != 0 {
		t.Errorf("unpacked % x\nwant     % x\n%s", s.batches[0].data, b, formatChanged)
	}
	if n := binary.BigEndian.Uint32(row); int(n) != len(row)-4 || n > 400 {
		t.Errorf("the block says %d bytes of %d", n, len(row)-4)
	}
}

func TestOnlyWhatShrinksIsPacked(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	f := func(name string, packed bool, batch []byte) {
		t.Run(name, func(t *testing.T) {
			marks, data := kafkaMarks(t, batch)
			sent := bytes.Clone(data)
			h := segmentHeader{Runs: []idRun{{Base: goldenBase}}, Marks: marks}
			header, stored := pack(h, data)
			if !bytes.Equal(data, sent) {
				t.Error("packing changed what is served")
			}
			if got := len(stored) < len(data); got != packed {
				t.Errorf("%d of %d bytes are stored", len(stored), len(data))
			}
			if !packed && (&stored[0] != &data[0] || !bytes.Equal(header, h.AppendTo(nil))) {
				t.Error("a segment of which nothing is packed is another")
			}
			if packed && 4*len(stored) > 3*len(data) {
				t.Errorf("packed to %d of %d bytes: that is not worth it", len(stored), len(data))
			}
		})
	}
	f("json", true, valuesBatch(t, codecNone, nil, order(r, 1000), order(r, 1000), order(r, 1000)))
	f("large json", true, valuesBatch(t, codecNone, nil, order(r, 300_000)))
	f("little json", false, valuesBatch(t, codecNone, nil, order(r, 1000)))
	f("random", false, valuesBatch(t, codecNone, nil, noise(r, 100_000)))
	f("a quarter json", false, valuesBatch(t, codecNone, nil, append(noise(r, 75_000), order(r, 25_000)...)))
	if looksPackable(valuesBatch(t, codecNone, nil, noise(r, 100_000))) || looksPackable(valuesBatch(t, codecNone, nil, noise(r, packBytesMin))) {
		t.Error("noise is packed to see that it does not shrink")
	}
	for _, codec := range allCodecs[1:] {
		// Zeroes compress twice: it is not asked whether they would.
		f(fmt.Sprintf("codec %d", codec), false, valuesBatch(t, codec, nil, make([]byte, 4<<20)))
	}
}

func TestUnpackingRefusesDamage(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	plain := valuesBatch(t, codecNone, nil, noise(r, 3000))
	marks, data := kafkaMarks(t, valuesBatch(t, codecNone, nil, order(r, 5000)), plain, valuesBatch(t, codecNone, nil, order(r, 9000)))
	header, row := pack(segmentHeader{Runs: []idRun{{Base: goldenBase}}, Marks: marks}, data)
	mustLoad(t, 0, 2, header, bytes.Clone(row))
	first := packedPrefixLen + int(binary.BigEndian.Uint32(row))
	entries := len(header) - 3*batchMarkLen
	f := func(name string, change func(h, d []byte) ([]byte, []byte)) {
		t.Helper()
		h, d := change(bytes.Clone(header), bytes.Clone(row))
		if s, err := loadSegment(0, 2, 1, time.Time{}, h, d); !errors.Is(err, ErrCorruptBatch) || !strings.Contains(err.Error(), "segment 0–2") {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	put := func(b []byte, at int, v uint32) []byte { binary.BigEndian.PutUint32(b[at:], v); return b }
	f("no prefix", func(h, d []byte) ([]byte, []byte) { return h, d[:3] })
	f("nothing", func(h, d []byte) ([]byte, []byte) { return h, nil })
	f("block longer than the row", func(h, d []byte) ([]byte, []byte) { return h, put(d, 0, 1<<31) })
	f("empty block", func(h, d []byte) ([]byte, []byte) { return h, append(put(d, 0, 0)[:4], d[first:]...) })
	f("block cut", func(h, d []byte) ([]byte, []byte) { return h, put(d, 0, uint32(first-packedPrefixLen-1)) })
	f("row cut", func(h, d []byte) ([]byte, []byte) { return h, d[:len(d)-1] })
	f("row grown", func(h, d []byte) ([]byte, []byte) { return h, append(d, 0) })
	f("length in the entry", func(h, d []byte) ([]byte, []byte) { return put(h, entries, marks[0].Length+1), d })
	f("not packed", func(h, d []byte) ([]byte, []byte) { h[entries+batchMarkAtFlags+1] = 0; return h, d })
	f("packed", func(h, d []byte) ([]byte, []byte) {
		h[entries+batchMarkLen+batchMarkAtFlags+1] = byte(flagPacked)
		return h, d
	})
	f("a batch shorter than a header", func(h, d []byte) ([]byte, []byte) {
		block := s2.Encode(nil, []byte("short"))
		d = append(append(binary.BigEndian.AppendUint32(nil, uint32(len(block))), block...), d[first:]...)
		return put(h, entries, 5), d
	})
	// Ten bytes that promise 4 GiB must not take them, whatever the entry says.
	block := append(binary.AppendUvarint(nil, 1<<32-1), 0, 0, 0, 0, 0)
	promise := append(append(binary.BigEndian.AppendUint32(nil, uint32(len(block))), block...), row[first:]...)
	for length, why := range map[uint32]string{1<<32 - 1: "are allowed", marks[0].Length: "says it has 4294967295 bytes"} {
		h := put(bytes.Clone(header), entries, length)
		if s, err := loadSegment(0, 2, 1, time.Time{}, h, bytes.Clone(promise)); !errors.Is(err, ErrCorruptBatch) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, %v; want an error with %q", s, err, why)
		}
	}
	damaged := 0
	for range 500 {
		h, d := bytes.Clone(header), bytes.Clone(row)
		d[packedPrefixLen+r.IntN(first-packedPrefixLen)] ^= 1 << r.IntN(8)
		s, err := loadSegment(0, 2, 7, time.Time{}, h, d)
		switch {
		case err == nil && !bytes.Equal(s.batches[0].data[batchAtMagic:], data[batchAtMagic:marks[0].Length]):
			t.Fatal("a bit that fell over was not found")
		case err != nil && !errors.Is(err, ErrCorruptBatch):
			t.Fatal(err)
		case err != nil:
			damaged++
		}
	}
	if damaged < 400 {
		t.Errorf("%d of 500 damaged rows were found", damaged)
	}
}

// FuzzUnpack: no block makes unpacking panic or give anything but as many bytes as
// the entry says.
func FuzzUnpack(f *testing.F) {
	b := valuesBatch(f, codecNone, nil, bytes.Repeat([]byte("queen"), 20))
	marks, data := kafkaMarks(f, b, b)
	var row []byte // smaller than what pack would take, so that the fuzzer is fast
	for range 2 {
		block := s2.Encode(nil, b)
		row = append(binary.BigEndian.AppendUint32(row, uint32(len(block))), block...)
	}
	f.Add(row, marks[0].Length, true)
	f.Add(row[:len(row)-1], marks[0].Length, true)
	f.Add(data, marks[0].Length, false)
	f.Fuzz(func(t *testing.T, row []byte, length uint32, packed bool) {
		if length > 1<<20 {
			return
		}
		h := segmentHeader{Marks: []batchMark{{Length: length, Flags: flagPacked}, {Length: marks[1].Length}}}
		if packed {
			h.Marks[1].Flags = flagPacked
		}
		got, err := h.unpack(row)
		if err != nil {
			return
		}
		if len(got) < int(length)+int(marks[1].Length) {
			t.Fatalf("%d bytes of batches of %d and %d", len(got), length, marks[1].Length)
		}
		if _, err := lookBatch(got[:length]); err == nil && binary.BigEndian.Uint32(got[batchAtCRC:]) != crc32.Checksum(got[batchAtAttributes:length], castagnoli) {
			t.Fatal("the CRC was not looked at")
		}
	})
}

// BenchmarkPack packs 4 MiB of batches of one size; bytes are those served.
func BenchmarkPack(b *testing.B) {
	for _, kind := range []string{"json", "random"} {
		for _, size := range []int{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 512 << 10} {
			b.Run(fmt.Sprintf("kind=%s/batch=%d", kind, size), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				var batches [][]byte
				for n := 0; n < 4<<20; n += size {
					var values [][]byte
					for left := size; left > 0; left -= 1 << 10 {
						if kind == "json" {
							values = append(values, order(r, 1<<10-40))
						} else {
							values = append(values, noise(r, 1<<10))
						}
					}
					batches = append(batches, valuesBatch(b, codecNone, nil, values...))
				}
				marks, data := kafkaMarks(b, batches...)
				p := packing{marks: marks, data: data, header: appendSegmentHeader(nil, goldenBase, marks)}
				b.SetBytes(int64(len(data)))
				stored := 0
				for b.Loop() {
					p.release()
					p.at, p.done = 0, 0
					for range marks {
						p.next()
					}
					stored = len(p.stored())
				}
				b.ReportMetric(float64(stored)/float64(len(data)), "stored/served")
			})
		}
	}
}
