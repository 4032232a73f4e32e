package compat

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// scaleSizes are how large TestScale is.
type scaleSizes struct {
	topics, partitions, consumers int
	rest, measured                time.Duration
	holds                         bool // to what is promised of times and processors
}

// scale is small in every run, and as promised with COMPAT_SCALE=1 (make scale-kafka).
func scale() scaleSizes {
	if os.Getenv("COMPAT_SCALE") == "" {
		return scaleSizes{topics: 100, partitions: 100, consumers: 50, rest: 100 * time.Millisecond, measured: 100 * time.Millisecond}
	}
	return scaleSizes{topics: 10_000, partitions: 10_000, consumers: 1000, rest: 10 * time.Second, measured: time.Minute, holds: true}
}

// The bounds of the promise.
const (
	metadataWithin = 200 * time.Millisecond
	idleCores      = 0.10 // of one core, user and system
)

// TestScale: many topics, many partitions, and many consumers with nothing to read.
func TestScale(t *testing.T) {
	size := scale()
	dir := broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	before := gauge(t, p, "go_memstats_next_gc_bytes")
	on1 := func(steps func(ctx context.Context, k *T)) {
		t.Helper()
		o := Options{Brokers: []string{p.Kafka}, Timeout: 10 * time.Minute}
		if r := RunCase(t.Context(), o, Case{t.Name(), steps}); r.Result != Pass {
			t.Fatal(r.Detail)
		}
	}
	wide := "scale-wide"
	on1(func(_ context.Context, k *T) {
		w := k.control()
		made := time.Now()
		w.makeTopics(newTopic(wide, int32(size.partitions)))
		one := time.Since(made)
		for i := 0; i < size.topics; i += 500 {
			var ts []kmsg.CreateTopicsRequestTopic
			for j := i; j < min(i+500, size.topics); j++ {
				ts = append(ts, newTopic(fmt.Sprintf("scale-%05d", j), 1))
			}
			w.makeTopics(ts...)
		}
		t.Logf("one topic of %d partitions made in %s, %d topics in %s", size.partitions, one.Round(time.Millisecond), size.topics, (time.Since(made) - one).Round(time.Millisecond))
	})
	for _, c := range []struct {
		what       string
		topics     []string
		partitions int
	}{
		{fmt.Sprintf("all %d topics", size.topics+1), nil, size.topics + size.partitions},
		{fmt.Sprintf("one topic of %d partitions", size.partitions), []string{wide}, size.partitions},
	} {
		on1(func(_ context.Context, k *T) {
			took, bytes := k.metadataTakes(c.topics, c.partitions)
			t.Logf("Metadata of %s: %s, %d KiB", c.what, took.Round(100*time.Microsecond), bytes>>10)
			if size.holds && took > metadataWithin {
				t.Errorf("Metadata of %s took %s, promised are %s", c.what, took, metadataWithin)
			}
		})
	}
	// What the collector aims at is twice what is in use.
	all := size.topics + size.partitions
	t.Logf("about %d bytes of memory for each of %d partitions", int(max(0, gauge(t, p, "go_memstats_next_gc_bytes")-before)/2)/all, all)
	idleConsumers(t, p, dir, size, wide)
}

func (w *wire) makeTopics(ts ...kmsg.CreateTopicsRequestTopic) {
	req := createTopicsRequest(false, ts...)
	req.TimeoutMillis = 300_000
	for _, rt := range ask[*kmsg.CreateTopicsResponse](w, req, w.t.max(kmsg.CreateTopics, newest)).Topics {
		if rt.ErrorCode != 0 {
			w.t.Fatalf("create %s: %s", rt.Topic, codeName(rt.ErrorCode))
		}
	}
}

// metadataTakes measures Metadata of some topics, or all, to the last byte of the
// answer: the best of several, because others use this machine too.
func (t *T) metadataTakes(topics []string, partitions int) (best time.Duration, bytes int) {
	w := t.dial()
	v := t.max(kmsg.Metadata, newest)
	for i := range 10 {
		req := kmsg.NewPtrMetadataRequest()
		for _, name := range topics {
			req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
		}
		start := time.Now()
		body := w.next(w.send(req, v))
		took := time.Since(start)
		if i == 0 {
			got, err := decode(body, req)
			t.must(err, "decode")
			n := 0
			for _, mt := range got.(*kmsg.MetadataResponse).Topics {
				t.wantCode("topic", mt.ErrorCode, 0)
				n += len(mt.Partitions)
			}
			if n != partitions {
				t.Fatalf("%d partitions, want %d", n, partitions)
			}
			best = took
		}
		best, bytes = min(best, took), len(body)
	}
	return best, bytes
}

// idleConsumers has consumers poll partitions that have nothing, in fetch sessions
// with the default wait, and measures what that costs.
func idleConsumers(t *testing.T, p *broker.Process, dir string, size scaleSizes, topicName string) {
	var polls atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var ready, all sync.WaitGroup
	ready.Add(size.consumers)
	o := Options{Brokers: []string{p.Kafka}, Timeout: 10 * time.Minute}
	tp := topic{name: topicName}
	var v int16
	on(t, p, func(_ context.Context, k *T) {
		md, err := k.adm().Metadata(k.ctx, topicName)
		k.must(err, "metadata")
		tp.id, v = [16]byte(md.Topics[topicName].ID), k.max(kmsg.Fetch, newest)
	})
	dialing := make(chan struct{}, 20)
	for i := range size.consumers {
		all.Go(func() {
			once := sync.OnceFunc(ready.Done)
			defer once()
			r := RunCase(t.Context(), o, Case{t.Name(), func(_ context.Context, k *T) {
				dialing <- struct{}{}
				w := k.dial()
				<-dialing
				id := k.session(w, tp, v, int32(i%size.partitions))
				for turn := int32(1); ctx.Err() == nil; turn++ {
					req := fetchRequest(tp, fetchSpec{maxWait: 500 * time.Millisecond, minBytes: 1, maxBytes: 50 << 20, session: id, turn: turn})
					if got := ask[*kmsg.FetchResponse](w, req, v); got.ErrorCode != 0 || partitionsIn(got) != 0 {
						k.Fatalf("an idle poll answered %s with %d partitions", codeName(got.ErrorCode), partitionsIn(got))
					}
					polls.Add(1)
					once()
				}
			}})
			if r.Result != Pass {
				t.Error(r.Detail)
			}
		})
	}
	ready.Wait()
	wait(t, size.rest)
	db := database(t.Context(), t, dir)
	before := readIdle(t, p, db, &polls)
	// Each polls some times at least, however busy this machine is.
	wait(t, size.measured)
	for polls.Load() < before.polls+2*int64(size.consumers) {
		wait(t, 100*time.Millisecond)
	}
	after := readIdle(t, p, db, &polls)
	stop()
	all.Wait()
	took := after.at.Sub(before.at).Seconds()
	n := after.polls - before.polls
	statements := after.statements - before.statements
	cores := (after.cpu - before.cpu) / took
	t.Logf("%d idle consumers: %d polls in %.1f s, %.1f %% of a core, %d statements of the database, %.0f reads of logs",
		size.consumers, n, took, 100*cores, statements, after.reads-before.reads)
	if reads := after.reads - before.reads; reads > float64(size.consumers) {
		t.Errorf("%.0f reads of the database by %d polls: they are to be answered from memory", reads, n)
	}
	if !size.holds {
		return
	}
	if statements > n/10 {
		t.Errorf("%d statements for %d polls", statements, n)
	}
	if cores > idleCores {
		t.Errorf("idle consumers take %.1f %% of a core, promised are %.0f %%", 100*cores, 100*idleCores)
	}
}

// wait lets time pass: here it is what is measured.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// idle is what was used up to a moment.
type idle struct {
	at         time.Time
	polls      int64
	cpu        float64 // seconds, user and system
	reads      float64 // partition reads answered by the database
	statements int64   // transactions, each of which is one statement
}

func readIdle(t *testing.T, p *broker.Process, db *pgx.Conn, polls *atomic.Int64) idle {
	t.Helper()
	i := idle{at: time.Now(), polls: polls.Load(), cpu: gauge(t, p, "process_cpu_seconds_total"), reads: gauge(t, p, "queen_store_reads_total")}
	if err := db.QueryRow(t.Context(), "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&i.statements); err != nil {
		t.Fatal(err)
	}
	return i
}

// gauge reads one metric of a broker.
func gauge(t *testing.T, p *broker.Process, name string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.HTTP+"/metrics/prometheus", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
