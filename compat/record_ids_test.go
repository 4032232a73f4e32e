package compat

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"queenmq/compat/broker"
)

// A stock Kafka producer on a topic that takes its ids from keys: what it sends
// again, also as another producer and after kill -9, is stored once.
func TestStockProducerIsDeduplicatedByKey(t *testing.T) {
	t.Parallel()
	ctx, dir := within(t, 3*time.Minute), broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	source, window := "key", "3600"
	if _, err := kadm.NewClient(kafka(t, p)).CreateTopic(ctx, 1, 1, map[string]*string{
		"queen.dedup.source": &source, "queen.dedup.window.seconds": &window,
	}, "orders"); err != nil {
		t.Fatal(err)
	}
	offsets := func(p *broker.Process, opts ...kgo.Opt) (out []int64) {
		t.Helper()
		cl := kafka(t, p, append(opts, kgo.DefaultProduceTopic("orders"))...)
		defer cl.Close()
		for i := range 5 {
			r := &kgo.Record{Key: fmt.Appendf(nil, "order-%d", i), Value: []byte("x")}
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
			out = append(out, r.Offset)
		}
		return out
	}
	want := []int64{0, 1, 2, 3, 4}
	check := func(when string, got []int64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: offsets %v, want %v", when, got, want)
		}
	}
	check("first", offsets(p))
	check("by another producer", offsets(p))
	check("without idempotence, compressed", offsets(p, kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.ZstdCompression())))
	check("through a second broker", offsets(second(t, dir)))
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	p = start(t, broker.Config{DataDir: dir})
	check("after kill -9 and restart", offsets(p))
	got := push(ctx, t, p, item{Queue: "orders", Partition: "0", Payload: 1, TransactionID: "order-3"})[0]
	if got.Status != "duplicate" || got.Offset != 3 {
		t.Errorf("the same id over HTTP: %+v, want a duplicate at 3", got)
	}
	if n := stored(ctx, t, p, "orders", "0"); n != 5 {
		t.Errorf("%d messages are stored, want 5", n)
	}
}
