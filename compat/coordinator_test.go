package compat

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// coordinated makes the name of a group that the broker coordinates and keeps: it
// and the broker of the case know of all there are, so what is not to be its own was
// given away.
func (t *T) coordinated(by *broker.Process, brokers int) string {
	w := t.dialTo(by.Kafka)
	for _, at := range []*wire{t.dial(), w} {
		for n := 0; n != brokers; {
			md := ask[*kmsg.MetadataResponse](at, kmsg.NewPtrMetadataRequest(), t.max(kmsg.Metadata, newest))
			if n = len(md.Brokers); n != brokers && !t.pause(50*time.Millisecond) {
				t.Fatalf("%d brokers, want %d", n, brokers)
			}
		}
	}
	for {
		group := t.group()
		if w.coordinator(group) == by.Kafka {
			return group
		}
		if !t.pause(10 * time.Millisecond) {
			t.Fatalf("%s coordinates no group", by.Kafka)
		}
	}
}

// coordinator is where the broker says that a group's coordinator is; empty for nowhere.
func (w *wire) coordinator(group string) string {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{group}
	c := ask[*kmsg.FindCoordinatorResponse](w, req, w.t.max(kmsg.FindCoordinator, newest)).Coordinators[0]
	if c.ErrorCode != 0 {
		return ""
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}

// movedFrom waits until the broker of the case says that another than addr
// coordinates the group, and answers which.
func (t *T) movedFrom(group, addr string) string {
	w := t.dial()
	for {
		if now := w.coordinator(group); now != "" && now != addr {
			return now
		}
		if !t.pause(50 * time.Millisecond) {
			t.Fatalf("%s still coordinates %s", addr, group)
		}
	}
}

// asAdmin asks as a client that has just come: one that knew a killed broker keeps
// to what it knew until it refreshes its metadata.
func (t *T) asAdmin(ask func(*kadm.Client)) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(t.brokers...))
	t.must(err, "new client")
	defer cl.Close()
	ask(kadm.NewClient(cl))
}

// pausedNow stops a process and returns when it has stopped.
func (t *T) pausedNow(p *broker.Process) {
	t.must(p.Signal(syscall.SIGSTOP), "stop a broker")
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if errors.Is(err, fs.ErrNotExist) {
			return // no Linux: it is as good as stopped
		}
		t.must(err, "look at a process")
		if _, state, ok := strings.Cut(string(b), ") "); ok && state[0] == 'T' {
			return
		}
		if !t.pause(time.Millisecond) {
			t.Fatalf("broker %d did not stop", p.PID())
		}
	}
}

// slowly is on for steps that wait for brokers to be missed.
func slowly(t *testing.T, p *broker.Process, steps func(ctx context.Context, k *T)) {
	t.Helper()
	r := RunCase(t.Context(), Options{Brokers: []string{p.Kafka}, Timeout: 2 * time.Minute}, Case{t.Name(), steps})
	if r.Result != Pass {
		t.Fatal(r.Detail)
	}
	t.Log(r.Detail)
}

// Of three brokers one is stopped, wakes up again, and is killed; a second one ends
// while members come and go (make churn does that for longer, and alone).
func TestCoordinatorsAreReplaced(t *testing.T) {
	t.Parallel()
	dir := broker.TempDataDir(t)
	keeper := start(t, broker.Config{DataDir: dir}) // its database outlives the brokers
	a, b := second(t, dir), second(t, dir)
	left := 3
	t.Run("paused", func(t *testing.T) { pausedCoordinatorCannotCommit(t, a, b) })
	t.Run("killed", func(t *testing.T) {
		killedCoordinatorIsReplaced(t, a, b)
		left--
	})
	t.Run("churn", func(t *testing.T) { groupChurn(t, b, keeper, left, churnSizeFromEnv(t)) })
}

// A coordinator that was stopped for longer than it takes to be replaced wakes up
// with a commit in its hands: it is refused, and what its successor stored stays.
func pausedCoordinatorCannotCommit(t *testing.T, a, b *broker.Process) {
	slowly(t, b, func(ctx context.Context, k *T) {
		tp := k.topic(1)
		group := k.coordinated(a, 3)
		v := k.max(kmsg.OffsetCommit, newest)
		old := k.dialTo(a.Kafka)
		j := k.stable(old, group)
		k.wantCode("the first commit", old.commit(group, tp, v, commit{member: j.MemberID, generation: j.Generation, offset: 5}), 0)

		k.pausedNow(a)
		defer func() { _ = a.Signal(syscall.SIGCONT) }()
		stale := offsetCommitRequest(group, tp, commit{member: j.MemberID, generation: j.Generation, offset: 1})
		corr := old.send(stale, v)
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Group, beat.MemberID, beat.Generation = group, j.MemberID, j.Generation
		beatCorr := old.send(beat, k.max(kmsg.Heartbeat, newest))

		var next *wire
		for settled := false; !settled; { // who is named may not know it yet
			next = k.dialTo(k.movedFrom(group, a.Kafka))
			settled = k.heartbeat(next, group, "nobody", 1) != 16
			if !settled && !k.pause(50*time.Millisecond) {
				k.Fatalf("nobody took the group over")
			}
		}
		now := k.stable(next, group)
		k.wantCode("a commit at the successor", next.commit(group, tp, v, commit{member: now.MemberID, generation: now.Generation, offset: 9}), 0)

		k.must(a.Signal(syscall.SIGCONT), "wake a broker")
		r := answer[*kmsg.OffsetCommitResponse](old, stale, corr)
		k.wantCode("the commit it had in its hands", r.Topics[0].Partitions[0].ErrorCode, 16, 25)
		k.wantCode("a heartbeat to it", answer[*kmsg.HeartbeatResponse](old, beat, beatCorr).ErrorCode, 16, 25)
		for { // the slot may be on its way back
			var got kadm.OffsetResponses
			var err error
			k.asAdmin(func(c *kadm.Client) { got, err = c.FetchOffsets(ctx, group) })
			if o, ok := got.Lookup(tp.name, 0); err == nil && ok && o.Err == nil {
				if o.At != 9 {
					k.Errorf("the group is at %d, want 9", o.At)
				}
				return
			}
			if !k.pause(50 * time.Millisecond) {
				k.Fatalf("no position: %v", err)
			}
		}
	})
}

// Members go on elsewhere, from what they committed, when their coordinator is
// killed: within their session, and without reading twice what was committed.
func killedCoordinatorIsReplaced(t *testing.T, a, b *broker.Process) {
	const session, n, partitions = 30 * time.Second, 200, 4
	slowly(t, b, func(ctx context.Context, k *T) {
		tp := k.topic(partitions)
		group := k.coordinated(a, 3)
		var mu sync.Mutex
		seen := make(map[string]int)
		var total atomic.Int64
		var members sync.WaitGroup
		ctx, stop := context.WithCancel(ctx)
		defer members.Wait()
		defer stop()
		for range 2 {
			cl := k.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp.name), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(session), kgo.HeartbeatInterval(500*time.Millisecond))
			members.Go(func() {
				for ctx.Err() == nil {
					fs := cl.PollRecords(ctx, 10)
					mu.Lock()
					for _, r := range fs.Records() {
						seen[string(r.Value)]++
						total.Add(1)
					}
					mu.Unlock()
					_ = cl.CommitUncommittedOffsets(ctx) // while the group moves it is refused
					cl.AllowRebalance()
				}
			})
		}
		producer := k.client(kgo.DefaultProduceTopic(tp.name))
		produce := func(from int) {
			var rs []*kgo.Record
			for i := range n {
				rs = append(rs, &kgo.Record{Key: fmt.Append(nil, i), Value: fmt.Append(nil, from+i)})
			}
			k.must(producer.ProduceSync(ctx, rs...).FirstErr(), "produce")
		}
		committed := func(want int64) {
			for {
				lag := int64(-1)
				k.asAdmin(func(c *kadm.Client) {
					if got, err := c.FetchOffsets(ctx, group); err == nil {
						lag = want
						got.Each(func(o kadm.OffsetResponse) { lag -= o.At })
					}
				})
				if lag == 0 {
					return
				}
				if !k.pause(100 * time.Millisecond) {
					k.Fatalf("%d of %d are not committed", lag, want)
				}
			}
		}
		produce(0)
		committed(n)
		killed := time.Now()
		k.must(a.Kill(), "kill a broker")
		next := k.movedFrom(group, a.Kafka)
		for {
			var d kadm.DescribedGroups
			var err error
			k.asAdmin(func(c *kadm.Client) { d, err = c.DescribeGroups(ctx, group) })
			g := d[group]
			if err == nil && g.Err == nil && g.State == "Stable" && len(g.Members) == 2 {
				break
			}
			if !k.pause(100 * time.Millisecond) {
				k.Fatalf("the group did not come back: %v, %s with %d members", errors.Join(err, g.Err), g.State, len(g.Members))
			}
		}
		took := time.Since(killed)
		if took > session {
			k.Errorf("its members were back after %s, their session is %s", took, session)
		}
		k.Notef("%s coordinates, both members back after %s", next, took.Round(10*time.Millisecond))
		produce(n)
		committed(2 * n)
		mu.Lock()
		defer mu.Unlock()
		for i := range n {
			if c := seen[fmt.Sprint(i)]; c != 1 {
				k.Errorf("record %d, committed before the kill, was read %d times", i, c)
			}
		}
		for i := n; i < 2*n; i++ {
			if seen[fmt.Sprint(i)] == 0 {
				k.Errorf("record %d was not read", i)
			}
		}
	})
}
