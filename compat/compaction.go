package compat

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var compactionCases = []Case{
	{"compaction/latest-value-of-a-key-stays", compactsKeys},
	{"compaction/refuses-records-without-key", refusesKeyless},
	{"compaction/nobody-deletes-records", noDeleteRecords},
}

// keyed makes a batch of records, each a key and a value; a null value is "".
func keyed(kv ...string) batch {
	b := values()
	b.timestamp = time.Now().UnixMilli() // segments are rolled by it
	for i := 0; i < len(kv); i += 2 {
		r := kmsg.Record{Key: []byte(kv[i]), Value: []byte(kv[i+1])}
		if kv[i+1] == "" {
			r.Value = nil
		}
		b.records = append(b.records, r)
	}
	return b
}

// compacting makes a topic that is compacted as soon as a broker may.
func (t *T) compacting() topic {
	return t.createTopic(t.name("compat"), 1, map[string]*string{
		"cleanup.policy": kmsg.StringPtr("compact"), "min.cleanable.dirty.ratio": kmsg.StringPtr("0.01"),
		"segment.ms": kmsg.StringPtr("100"), "delete.retention.ms": kmsg.StringPtr("100"),
	})
}

// compactsKeys: superseded records go, without any request but to produce, and
// tombstones after their time; what stays has its offset. A reader from the start
// finds the latest value of every key at any time.
func compactsKeys(ctx context.Context, t *T) {
	tp := t.compacting()
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Produce, newest)
	gzip := kgo.GzipCompression()
	for i, b := range []batch{
		keyed("a", "1", "b", "1", "gone", "1"), // 0–2
		keyed("a", "2"),                        // 3
		keyed("b", "2", "c", "1"),              // 4, 5
		keyed("gone", ""),                      // 6
		keyed("a", "3"),                        // 7
	} {
		if i%2 == 0 {
			b.codec = &gzip
		}
		t.wantCode("produce", w.produce(tp, v, -1, part{0, b.encode()})[0].ErrorCode, 0)
	}
	want := []string{"4 b=2", "5 c=1", "7 a=3"}
	start := time.Now()
	for n := 0; ; n++ {
		// The segment that is written to is not compacted: there has to be another.
		t.wantCode("produce", w.produce(tp, v, -1, part{0, keyed("filler", fmt.Sprint(n)).encode()})[0].ErrorCode, 0)
		got := t.readAll(ctx, tp)
		latest := make(map[string]string)
		kept := []string{}
		for _, r := range got {
			if string(r.Key) == "filler" {
				continue
			}
			kept = append(kept, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value))
			if latest[string(r.Key)] = string(r.Value); r.Value == nil {
				delete(latest, string(r.Key))
			}
		}
		if latest["a"] != "3" || latest["b"] != "2" || latest["c"] != "1" || len(latest) != 3 {
			t.Fatalf("a reader finds %v in %v", latest, kept)
		}
		if slices.Equal(kept, want) {
			break
		}
		if !t.pause(300 * time.Millisecond) {
			t.Fatalf("not compacted after %s: %v", time.Since(start).Round(time.Second), kept)
		}
	}
	t.Notef("compacted in %s", time.Since(start).Round(time.Second))
	starts, err := t.adm().ListStartOffsets(ctx, tp.name)
	t.must(err, "list start offsets")
	if o, _ := starts.Lookup(tp.name, 0); o.Offset != 0 {
		t.Errorf("the log starts at %d, want 0 still", o.Offset)
	}
	// A fetch in the middle of what is gone goes on with what is there.
	f := w.fetch(tp, t.max(kmsg.Fetch, newest), fetchSpec{maxBytes: 1 << 20, offset: 1}, 0)
	if f.ErrorCode != 0 || len(f.RecordBatches) == 0 {
		t.Errorf("a fetch at 1: code %d and %d bytes", f.ErrorCode, len(f.RecordBatches))
	}
}

// readAll reads a partition from its start to the end it has now.
func (t *T) readAll(ctx context.Context, tp topic) []*kgo.Record {
	end := t.endOffset(tp.name, 0)
	cl, err := kgo.NewClient(kgo.SeedBrokers(t.brokers...), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{tp.name: {0: kgo.NewOffset().At(0)}}))
	t.must(err, "new client")
	defer cl.Close()
	var got []*kgo.Record
	for len(got) == 0 || got[len(got)-1].Offset < end-1 {
		fs := cl.PollFetches(ctx)
		t.must(fs.Err(), "consume")
		got = append(got, fs.Records()...)
	}
	return got
}

// refusesKeyless: the whole batch is refused, and told which records are to blame.
func refusesKeyless(_ context.Context, t *T) {
	tp := t.compacting()
	w := t.dialTo(t.leader(tp.name, 0))
	b := keyed("a", "1", "b", "2", "c", "3", "", "4")
	b.records[1].Key, b.records[2].Key = nil, nil // empty is a key
	offered, _ := t.offers(kmsg.Produce)
	for v := max(offered.min, 3); v <= t.max(kmsg.Produce, newest); v++ {
		got := w.produce(tp, v, -1, part{0, b.encode()})[0]
		t.wantCode(fmt.Sprintf("v%d", v), got.ErrorCode, kerr.InvalidRecord.Code)
		var named []int32
		for _, r := range got.ErrorRecords {
			named = append(named, r.RelativeOffset)
		}
		if v >= 8 && (!slices.Equal(named, []int32{1, 2}) || got.ErrorMessage == nil) {
			t.Errorf("v%d: records %v are blamed, want 1 and 2; the message is %v", v, named, got.ErrorMessage)
		}
	}
	t.wantStored(tp, 0, 0)
	t.wantCode("with keys", w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, keyed("a", "1", "", "2").encode()})[0].ErrorCode, 0)
	t.wantStored(tp, 0, 2)
}

func noDeleteRecords(_ context.Context, t *T) {
	tp := t.compacting()
	w := t.dialTo(t.leader(tp.name, 0))
	t.wantCode("produce", w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, keyed("a", "1").encode()})[0].ErrorCode, 0)
	got := w.deleteRecords(tp.name, t.max(kmsg.DeleteRecords, newest), 0, 1)
	t.wantCode("delete records of a compacted topic", got.ErrorCode, kerr.PolicyViolation.Code)
}
