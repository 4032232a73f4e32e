package compat

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// balancer is one address in front of brokers, which take turns.
type balancer struct {
	net.Listener
	turn atomic.Int64

	mu sync.Mutex
	to []string
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{Listener: l}
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { b.carry(ctx, nc) })
		}
	})
	t.Cleanup(func() {
		stop()
		_ = l.Close()
		work.Wait()
	})
	return b
}

// carry joins a connection to the next broker.
func (b *balancer) carry(ctx context.Context, nc net.Conn) {
	defer func() { _ = nc.Close() }()
	b.mu.Lock()
	to := b.to
	b.mu.Unlock()
	if len(to) == 0 {
		return
	}
	other, err := (&net.Dialer{}).DialContext(ctx, "tcp", to[int(b.turn.Add(1))%len(to)])
	if err != nil {
		return
	}
	defer func() { _ = other.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = nc.Close(), other.Close() })()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(other, nc)
		_ = other.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(nc, other)
	_ = nc.Close()
	both.Wait()
}

// Brokers that share one advertised address serve groups all the same: whichever a
// client reaches, its group's coordinator answers.
func TestGroupsWorkBehindOneAddress(t *testing.T) {
	t.Parallel()
	front := newBalancer(t)
	dir := broker.TempDataDir(t)
	args := []string{"--advertised-addr", front.Addr().String()}
	first := start(t, broker.Config{DataDir: dir, Args: args})
	pg, err := broker.Postgres(dir)
	if err != nil {
		t.Fatal(err)
	}
	other := start(t, broker.Config{DataDir: broker.TempDataDir(t), DatabaseURL: pg.URL(), Args: args})
	front.mu.Lock()
	front.to = []string{first.Kafka, other.Kafka}
	front.mu.Unlock()
	r := RunCase(t.Context(), Options{Brokers: []string{front.Addr().String()}, Timeout: 2 * time.Minute}, Case{t.Name(), func(ctx context.Context, k *T) {
		const n = 100
		tp := k.topic(4)
		ctx, stop := context.WithCancel(ctx)
		var members sync.WaitGroup
		defer members.Wait()
		defer stop()
		groups := []string{k.group(), k.group(), k.group(), k.group(), k.group(), k.group()}
		var total atomic.Int64
		var refused sync.Map // by group: the last error of a commit
		for _, group := range groups {
			for range 2 {
				cl := k.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
					kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
				members.Go(func() {
					for ctx.Err() == nil {
						// Not for ever: a commit that failed is made again without new records.
						poll, done := context.WithTimeout(ctx, time.Second)
						total.Add(int64(cl.PollFetches(poll).NumRecords()))
						done()
						if err := cl.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
							refused.Store(group, err)
						}
						cl.AllowRebalance()
					}
				})
			}
		}
		producer := k.client(kgo.DefaultProduceTopic(tp.name))
		for i := range n {
			k.must(producer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(), "produce")
		}
		for done := false; !done; {
			var seen []string
			done = true
			k.asAdmin(func(adm *kadm.Client) {
				described, err := adm.DescribeGroups(ctx, groups...)
				done = err == nil && len(described) == len(groups)
				for _, g := range described {
					done = done && g.Err == nil && g.State == "Stable" && len(g.Members) == 2
					seen = append(seen, fmt.Sprintf("%s %s, %d members, %v", g.Group, g.State, len(g.Members), g.Err))
				}
				for _, group := range groups {
					lag := int64(n)
					got, err := adm.FetchOffsets(ctx, group)
					got.Each(func(o kadm.OffsetResponse) { lag -= o.At })
					done = done && err == nil && lag == 0
					last, _ := refused.Load(group)
					seen = append(seen, fmt.Sprintf("%s lag %d, %v; last refused commit: %v", group, lag, err, last))
				}
			})
			if !done && !k.pause(100*time.Millisecond) {
				k.Fatalf("the groups did not settle; %d records of %d were read; %s", total.Load(), n*len(groups), strings.Join(seen, "; "))
			}
		}
		// Whoever is asked lists all of them.
		for range 4 {
			w := k.dial()
			listed := make(map[string]bool)
			for _, g := range ask[*kmsg.ListGroupsResponse](w, kmsg.NewPtrListGroupsRequest(), k.max(kmsg.ListGroups, newest)).Groups {
				listed[g.Group] = true
			}
			for _, group := range groups {
				if !listed[group] {
					k.Errorf("%s is not listed", group)
				}
			}
			w.close()
		}
	}})
	if r.Result != Pass {
		t.Fatal(r.Detail)
	}
}
