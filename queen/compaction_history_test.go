package queen

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"queenmq/store/storetest"
)

// Writers go on while two brokers compact, as often as they can. Whoever reads
// from the start, at any time and through either broker, finds for each key what was
// its latest value when the reading began, or a later one; and no key comes back. Who reads
// in steps must come by a tombstone before its time is over, as with Apache Kafka.
func TestTheLatestValueIsReadableWhileTwoBrokersCompact(t *testing.T) {
	t.Parallel()
	t.Run("in steps", func(t *testing.T) {
		t.Parallel()
		testLatestWhileCompacting(t, 3_600_000, 2000)
	})
	t.Run("at once, and tombstones go", func(t *testing.T) {
		t.Parallel()
		testLatestWhileCompacting(t, 0, 16<<20)
	})
}

func testLatestWhileCompacting(t *testing.T, tombstoneRetentionMs int64, readBytes int) {
	db := storetest.New(t)
	fast := func(c *Config) { c.CompactEvery, c.CompactKeysMax = time.Hour, 20 }
	brokers := []*Engine{openEngine(t, db, fast), openEngine(t, storetest.Open(t, db), fast)}
	compactedTopic(t, brokers[0], "t", func(o *QueueOptions) { o.TombstoneRetentionMs = tombstoneRetentionMs })
	const keys, writes = 40, 200

	m := &latestModel{acked: map[string]int{}, tried: map[string][]int{}}
	var work, background sync.WaitGroup
	stop := make(chan struct{})
	for i := range 2 {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			for n := 1; n <= writes; n++ {
				key := fmt.Sprintf("%d-%d", i, rnd.IntN(keys/2)) // a writer's own: their order is known
				p, number := pair{key, strconv.Itoa(n)}, n
				if rnd.IntN(4) == 0 {
					p.value, number = "", -n
				}
				codec := int8(rnd.IntN(len(codecNames)))
				m.try(key, number)
				if _, err := brokers[i].Append(t.Context(), []AppendItem{{Partition: at("t", 0), Batch: pairsBatch(t, codec, p)}})[0].Result(t.Context()); err != nil {
					t.Error(err)
					return
				}
				m.ack(key, number)
			}
		})
	}
	for _, e := range brokers {
		background.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := e.compactOnce(t.Context(), anyPartition); err != nil {
					t.Error(err)
					return
				}
			}
		})
		background.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				want := m.now()
				m.check(t, latestOf(t, e, readBytes), want)
			}
		})
	}
	work.Wait()
	close(stop)
	background.Wait()
	if t.Failed() {
		return
	}
	for _, e := range brokers {
		m.check(t, latestOf(t, e, readBytes), m.now())
	}
	// In the end: one more segment, and every one before it is compacted.
	appendPairs(t, brokers[0], "t", pair{"end", "1"})
	compactNow(t, brokers[0])
	elapse(t, db)
	compactNow(t, brokers[1])
	brokers[1].tail.forgetAll()
	m.check(t, latestOf(t, brokers[1], readBytes), m.now())
	alive := 1
	for _, n := range m.now() {
		if n > 0 {
			alive++
		}
	}
	if records := contents(t, brokers[1], "t"); len(records) != alive {
		t.Errorf("%d records are left, want %d: the latest of each key that is not deleted: %q", len(records), alive, records)
	}
}

// latestOf reads a partition from its start, and builds the map a consumer would.
func latestOf(t *testing.T, e *Engine, readBytes int) map[string]int {
	got := map[string]int{}
	for offset := int64(0); ; {
		a, err := e.Read(t.Context(), ReadRequest{
			Items:    []ReadItem{{Partition: at("t", 0), Offset: offset, MaxBytes: readBytes, CurrentEpoch: -1, LastFetchedEpoch: -1}},
			MaxBytes: readBytes,
		})
		if err != nil || a[0].Err != nil {
			t.Errorf("read at %d: %v, %v", offset, err, a[0].Err)
			return got
		}
		if len(a[0].Batches) == 0 {
			if offset < a[0].HighWatermark {
				t.Errorf("nothing at %d, the log ends at %d", offset, a[0].HighWatermark)
			}
			return got
		}
		for _, b := range a[0].Batches {
			base := int64(binary.BigEndian.Uint64(b))
			if err := eachRecord(b, 1<<20, func(r record) error {
				if base+int64(r.OffsetDelta) < offset {
					return nil
				}
				n, err := strconv.Atoi(string(r.Value))
				if r.Value == nil {
					delete(got, string(r.Key))
					return nil
				}
				got[string(r.Key)] = n
				return err
			}); err != nil {
				t.Error(err)
				return got
			}
			offset = lastOffset(b) + 1
		}
	}
}

// latestModel is what a log may say of its keys. Numbers of a key ascend; a
// negative one is a tombstone.
type latestModel struct {
	mu    sync.Mutex
	acked map[string]int   // the newest acknowledged
	tried map[string][]int // all that were sent
}

func (m *latestModel) try(key string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tried[key] = append(m.tried[key], n)
}

func (m *latestModel) ack(key string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acked[key] = n
}

func (m *latestModel) now() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.acked)
}

// check holds what a reader found against what was acknowledged before it began:
// of each key that write, or one that was sent after it.
func (m *latestModel) check(t *testing.T, got, before map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, n := range before {
		g, ok := got[key]
		if n < 0 && !ok {
			continue // deleted
		}
		i := slices.Index(m.tried[key], n)
		if !slices.ContainsFunc(m.tried[key][i:], func(later int) bool { return ok && later == g || !ok && later < 0 }) {
			t.Errorf("%s is %d (%v), and %d was acknowledged before; written were %v", key, g, ok, n, m.tried[key])
		}
	}
}
