package compat

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// The sequences of an idempotent producer are in the database: a batch resent
// byte for byte gets its offset from whichever broker it reaches.
func TestProducerSequencesSurvive(t *testing.T) {
	t.Parallel()
	dir := server(t)
	a, b := second(t, dir), second(t, dir)
	var tp topic
	var id int64
	var epoch int16
	var early, late []byte
	on(t, a, func(ctx context.Context, k *T) {
		k.adm() // the topic must outlive this case
		if _, err := k.admin.CreateTopic(ctx, 1, 1, nil, "sequences"); err != nil {
			k.Fatalf("create: %v", err)
		}
		tp = k.await("sequences", 1)
		w := k.dial()
		id, epoch = k.newProducer(w)
		early = values("0", "1", "2", "3", "4").from(id, epoch, 0).encode()
		late = values("5", "6", "7", "8", "9").from(id, epoch, 5).encode()
		for i, records := range [][]byte{early, late} {
			got := w.produce(tp, k.max(kmsg.Produce, newest), -1, part{0, records})
			if got[0].ErrorCode != 0 || got[0].BaseOffset != int64(i*5) {
				k.Fatalf("batch %d: %+v", i, got[0])
			}
		}
	})
	resent := func(when string, p *broker.Process) {
		t.Helper()
		on(t, p, func(_ context.Context, k *T) {
			for i, records := range [][]byte{late, early, late} {
				got := k.dial().produce(tp, k.max(kmsg.Produce, newest), -1, part{0, records})
				if want := []int64{5, 0, 5}[i]; got[0].ErrorCode != 0 || got[0].BaseOffset != want {
					k.Errorf("%s, resend %d: code %d, offset %d, want %d", when, i, got[0].ErrorCode, got[0].BaseOffset, want)
				}
			}
			ends(k, tp, 10)
		})
	}
	resent("at once", a)
	resent("through a second broker", b)
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	resent("through the second broker, the first killed", b)
	a = second(t, dir)
	resent("after the restart", a)
	on(t, a, func(_ context.Context, k *T) {
		next := values("10", "11", "12", "13", "14").from(id, epoch, 10).encode()
		got := k.dial().produce(tp, k.max(kmsg.Produce, newest), -1, part{0, next})
		if got[0].ErrorCode != 0 || got[0].BaseOffset != 10 {
			k.Errorf("the next sequence: %+v", got[0])
		}
		ends(k, tp, 15)
	})
	stored := readAll(within(t, time.Minute), t, a, tp.name, 15)
	for i, r := range stored {
		if string(r.Value) != fmt.Sprint(i) {
			t.Errorf("offset %d holds %s", i, r.Value)
		}
	}
}

// ends checks a log's end at the very broker that is asked: a client would ask
// the leader, which may be the one just killed.
func ends(k *T, tp topic, want int64) {
	if got := k.dial().offsetAt(tp.name, k.max(kmsg.ListOffsets, newest), 0, -1); got.ErrorCode != 0 || got.Offset != want {
		k.Errorf("the log ends at %d, code %d, want %d", got.Offset, got.ErrorCode, want)
	}
}

// A group goes on where it stopped after its broker was killed.
func TestGroupResumesAfterKill(t *testing.T) {
	t.Parallel()
	ctx, dir := within(t, 2*time.Minute), broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	const topic, group, n = "resume", "resumers", 500
	produce := func(from int) {
		t.Helper()
		cl := kafka(t, p, kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())
		var rs []*kgo.Record
		for i := range n {
			rs = append(rs, &kgo.Record{Value: fmt.Append(nil, from+i)})
		}
		if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]int)
	// consume reads n records as a member of the group and commits them; the
	// member does not leave.
	consume := func() {
		t.Helper()
		cl := kafka(t, p, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6*time.Second), kgo.InstanceID("one"))
		for got := 0; got < n; {
			fs := cl.PollRecords(ctx, n-got)
			if ctx.Err() != nil {
				t.Fatalf("%d of %d records came", got, n)
			}
			for _, r := range fs.Records() {
				seen[string(r.Value)]++
				got++
			}
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil {
			t.Fatal(err)
		}
	}
	produce(0)
	consume()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	p = start(t, broker.Config{DataDir: dir})
	produce(n)
	consume()
	for i := range 2 * n {
		if c := seen[fmt.Sprint(i)]; c != 1 {
			t.Errorf("record %d was seen %d times", i, c)
		}
	}
}

// The leader epoch does not go back, and the end of its log is known, across
// restarts.
func TestLeaderEpochSurvives(t *testing.T) {
	t.Parallel()
	dir := broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	last := int32(-1)
	look := func(p *broker.Process, created bool) {
		t.Helper()
		on(t, p, func(ctx context.Context, k *T) {
			if !created {
				_, err := k.adm().CreateTopic(ctx, 1, 1, nil, "epochs")
				k.must(err, "create")
			}
			tp := k.await("epochs", 1)
			w := k.dial()
			if !created {
				got := w.produce(tp, k.max(kmsg.Produce, newest), -1, part{0, values("a", "b", "c").encode()})
				k.wantCode("produce", got[0].ErrorCode, 0)
			}
			epoch := metadataOf(w, k.max(kmsg.Metadata, newest), tp.name, false).Partitions[0].LeaderEpoch
			if epoch < last {
				k.Errorf("leader epoch %d, it was %d", epoch, last)
			}
			last = epoch
			r := ask[*kmsg.OffsetForLeaderEpochResponse](w, leaderEpochRequest(tp.name, epoch, 0), k.max(kmsg.OffsetForLeaderEpoch, newest))
			if end := r.Topics[0].Partitions[0].EndOffset; end != 3 {
				k.Errorf("epoch %d ends at %d, want 3", epoch, end)
			}
		})
	}
	look(p, false)
	look(restarted(t, p, dir), true)
}

// A broker says one line on stdout, stops when asked, and leaves no server.
func TestServeStopsCleanly(t *testing.T) {
	t.Parallel()
	ctx, dir := within(t, time.Minute), broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	push(ctx, t, p, item{Queue: "q", Payload: 1})
	if err := p.Stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	if out := p.Stdout(); strings.Count(out, "\n") != 1 || !strings.Contains(p.Ready, " database=managed version=") {
		t.Errorf("stdout: %q", out)
	}
	if pg, err := broker.Postgres(dir); err == nil {
		t.Errorf("a PostgreSQL is left, process %d", pg.PID)
	}
}
