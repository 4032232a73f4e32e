// Under the race detector pools lose what they get at random.

//go:build !race

package queen

import (
	"crypto/rand"
	"runtime"
	"testing"
	"time"

	"queenmq/store/storetest"
)

// What the engine may allocate for each byte appended: the segment, and the
// message to PostgreSQL. And for each byte read from there by who releases it:
// less than a copy.
const (
	appendedPerByteMax = 2.5
	readPerByteMax     = 1
)

// Not parallel: it counts what the whole process allocates.
func TestRecordsAreNotCopiedMoreThanNeeded(t *testing.T) {
	e := openEngine(t, storetest.New(t), func(c *Config) { c.TailBytesMax = 1 })
	createTopic(t, e, "t", 1)
	value := make([]byte, 900<<10)
	_, _ = rand.Read(value)
	batch, _ := appendNative(nil, []*Message{{Value: value}}, time.Now(), 1<<20)

	const n = 32
	allocated := func(f func()) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(n*len(batch))
	}
	appendBatch(t, e, at("t", 0), batch) // connects, prepares
	if perByte := allocated(func() {
		for range n {
			appendBatch(t, e, at("t", 0), batch)
		}
	}); perByte > appendedPerByteMax {
		t.Errorf("appending allocates %.2f bytes for each", perByte)
	}

	read := func(from int64) {
		answers, err := e.Read(t.Context(), ReadRequest{
			Items:    []ReadItem{{Partition: at("t", 0), Offset: from, MaxBytes: 4 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1}},
			MaxBytes: 4 << 20,
		})
		if err != nil || answers[0].Err != nil || len(answers[0].Batches) != 4 {
			t.Fatal(len(answers[0].Batches), err, answers[0].Err)
		}
		answers[0].Release()
		if answers[0].Batches != nil {
			t.Error("an answer that was released still has its batches")
		}
	}
	read(0)
	if perByte := allocated(func() {
		for i := range n / 4 {
			read(int64(i))
		}
	}); perByte > readPerByteMax {
		t.Errorf("reading allocates %.2f bytes for each", perByte)
	}
}
