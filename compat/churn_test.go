package compat

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// churnSize is how much is done to a group.
type churnSize struct {
	members int           // at most, at a time
	lasts   time.Duration // coming and going
	idleMax time.Duration // from the end of that until all is read and committed
	hard    bool          // the coordinator is killed, not asked to end
}

// churnSizeFromEnv is what CHURN_TIME and CHURN_MEMBERS say, else a smoke test.
func churnSizeFromEnv(t *testing.T) churnSize {
	t.Helper()
	text := os.Getenv("CHURN_TIME")
	if text == "" {
		return churnSize{members: 8, lasts: 5 * time.Second, idleMax: time.Minute}
	}
	size := churnSize{members: 50, idleMax: 10 * time.Second, hard: true}
	var err error
	if size.lasts, err = time.ParseDuration(text); err != nil {
		t.Fatalf("CHURN_TIME: %v", err)
	}
	if text = os.Getenv("CHURN_MEMBERS"); text != "" {
		if size.members, err = strconv.Atoi(text); err != nil {
			t.Fatalf("CHURN_MEMBERS: %v", err)
		}
	}
	return size
}

// churn is a group whose members, all of one client id, come, leave and die, and what
// they saw.
type churn struct {
	k          *T
	topic      topic
	group      string
	partitions int

	serial atomic.Int64 // plans and members get their numbers from it
	plans  atomic.Int64 // plans that somebody followed

	mu     sync.Mutex
	owners map[string]map[int32]string // plan, partition → member
	acked  []int64                     // per partition, the highest position whose commit was answered with success
	read   []map[int64]bool            // per partition, offsets that members were given
}

// planned is a range balancer whose leader signs its plan, so that every member can
// tell which plan it follows, and that what it got was meant for it.
type planned struct {
	kgo.GroupBalancer
	c *churn
}

func (p planned) MemberBalancer(ms []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	b, topics, err := p.GroupBalancer.MemberBalancer(ms)
	return plannedMembers{b, p.c}, topics, err
}

// ParseSyncAssignment notes whom the plan made an owner.
func (p planned) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	owned, err := p.GroupBalancer.ParseSyncAssignment(assignment)
	var a kmsg.ConsumerMemberAssignment
	if err == nil && a.ReadFrom(assignment) == nil && len(a.UserData) > 0 {
		var plan, member string
		if _, err := fmt.Sscan(string(a.UserData), &plan, &member); err != nil {
			p.c.k.Errorf("a plan says %q", a.UserData)
		}
		p.c.follow(plan, member, owned[p.c.topic.name])
	}
	return owned, err
}

func (c *churn) follow(plan, member string, partitions []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners[plan] == nil {
		c.owners[plan] = make(map[int32]string)
		c.plans.Add(1)
	}
	for _, p := range partitions {
		if had, ok := c.owners[plan][p]; ok {
			c.k.Errorf("in plan %s partition %d is %s's and %s's", plan, p, had, member)
		}
		c.owners[plan][p] = member
	}
}

type plannedMembers struct {
	kgo.GroupMemberBalancer
	c *churn
}

// BalanceOrError is how the client balances.
func (p plannedMembers) BalanceOrError(topics map[string]int32) (kgo.IntoSyncAssignment, error) {
	plan, err := p.GroupMemberBalancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(topics)
	return signed{plan, p.c}, err
}

type signed struct {
	plan kgo.IntoSyncAssignment
	c    *churn
}

// IntoSyncAssignment is the plan as the leader sends it.
func (s signed) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment {
	all := s.plan.IntoSyncAssignment()
	plan := s.c.serial.Add(1)
	for i := range all {
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(all[i].MemberAssignment); err != nil {
			s.c.k.Errorf("a plan cannot be read: %v", err)
			continue
		}
		a.UserData = fmt.Appendf(nil, "plan-%d %s", plan, all[i].MemberID)
		all[i].MemberAssignment = a.AppendTo(nil)
	}
	return all
}

// churner is one member.
type churner struct {
	cl   *kgo.Client
	dead atomic.Bool
	mu   sync.Mutex
	nets []net.Conn
	stop context.CancelFunc
	done chan struct{}
}

// errDead is what a member that was killed gets from the network.
var errDead = errors.New("this member is dead")

func (m *churner) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	nc, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
	if err == nil {
		m.mu.Lock()
		m.nets = append(m.nets, nc)
		m.mu.Unlock()
	}
	return nc, err
}

// join starts a member, which reads and commits until it ends.
func (c *churn) join(ctx context.Context) *churner {
	m := &churner{done: make(chan struct{})}
	ctx, m.stop = context.WithCancel(ctx)
	var err error
	m.cl, err = kgo.NewClient(kgo.SeedBrokers(c.k.brokers...), kgo.ClientID("same"), kgo.Dialer(m.dial),
		kgo.ConsumerGroup(c.group), kgo.ConsumeTopics(c.topic.name), kgo.Balancers(planned{kgo.RangeBalancer(), c}),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond), kgo.RebalanceTimeout(6*time.Second),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(2*time.Second), kgo.FetchMaxWait(500*time.Millisecond))
	c.k.must(err, "new member")
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			fs := m.cl.PollRecords(ctx, 100)
			next := make(map[int32]kgo.EpochOffset)
			fs.EachRecord(func(r *kgo.Record) {
				next[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
				c.mu.Lock()
				c.read[r.Partition][r.Offset] = true
				c.mu.Unlock()
			})
			if len(next) > 0 {
				commit, cancel := context.WithTimeout(ctx, 5*time.Second)
				m.cl.CommitOffsetsSync(commit, map[string]map[int32]kgo.EpochOffset{c.topic.name: next}, c.committed)
				cancel()
			}
			m.cl.AllowRebalance()
		}
	}()
	return m
}

// committed notes positions that are stored: from now on nobody may see lower ones.
func (c *churn) committed(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
	if err != nil || resp == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range resp.Topics {
		for j, p := range t.Partitions {
			if p.ErrorCode == 0 {
				c.acked[p.Partition] = max(c.acked[p.Partition], req.Topics[i].Partitions[j].Offset)
			}
		}
	}
}

// leave ends a member: politely, or so that it falls silent.
func (c *churn) leave(m *churner, die bool) {
	if die {
		m.dead.Store(true)
		m.mu.Lock()
		for _, nc := range m.nets {
			_ = nc.Close()
		}
		m.mu.Unlock()
	}
	m.stop()
	<-m.done
	m.cl.CloseAllowingRebalance()
}

// positions asks once for the group's positions; those not there are 0.
func (c *churn) positions(ctx context.Context, adm *kadm.Client) ([]int64, error) {
	got, err := adm.FetchOffsets(ctx, c.group)
	if err != nil {
		return nil, err
	}
	at := make([]int64, c.partitions)
	got.Each(func(o kadm.OffsetResponse) {
		if o.Err != nil {
			err = o.Err
		}
		at[o.Partition] = o.At
	})
	return at, err
}

// watch checks over and over that no position goes back, until ctx ends.
func (c *churn) watch(ctx context.Context) (looks int) {
	last := make([]int64, c.partitions)
	for ctx.Err() == nil {
		c.k.asAdmin(func(adm *kadm.Client) {
			for ctx.Err() == nil {
				c.mu.Lock()
				least := append([]int64{}, c.acked...)
				c.mu.Unlock()
				call, cancel := context.WithTimeout(ctx, 5*time.Second)
				now, err := c.positions(call, adm)
				cancel()
				if err != nil {
					break // with a new client
				}
				looks++
				for p := range now {
					if now[p] < last[p] || now[p] < least[p] {
						c.k.Errorf("partition %d went back to %d: it was seen at %d, and %d was acknowledged", p, now[p], last[p], least[p])
					}
				}
				last = now
				c.k.pause(50 * time.Millisecond)
			}
		})
	}
	return looks
}

// groupChurn has members of one client id join, leave and die at random, and a
// coordinator end: in every plan a partition has one owner, no position goes back,
// everything is read, and soon after all is quiet nothing is left to read.
func groupChurn(t *testing.T, coordinator, other *broker.Process, brokers int, size churnSize) {
	r := RunCase(t.Context(), Options{Brokers: []string{other.Kafka}, Timeout: size.lasts + 4*time.Minute}, Case{t.Name(), func(ctx context.Context, k *T) {
		const partitions = 24
		c := &churn{
			k: k, topic: k.topic(partitions), group: k.coordinated(coordinator, brokers), partitions: partitions,
			owners: make(map[string]map[int32]string), acked: make([]int64, partitions),
		}
		for range partitions {
			c.read = append(c.read, make(map[int64]bool))
		}
		ctx, end := context.WithCancel(ctx)
		var beside sync.WaitGroup
		defer beside.Wait()
		defer end()
		looks := 0
		beside.Go(func() { looks = c.watch(ctx) })

		producing, quiet := context.WithCancel(ctx)
		defer quiet()
		stored := make([]int64, partitions)
		var produced sync.WaitGroup
		produced.Go(func() {
			cl := k.client(kgo.DefaultProduceTopic(c.topic.name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for n := int32(0); producing.Err() == nil; n++ {
				var rs []*kgo.Record
				for i := range int32(10) {
					rs = append(rs, &kgo.Record{Partition: (10*n + i) % partitions, Value: fmt.Append(nil, n)})
				}
				for _, res := range cl.ProduceSync(ctx, rs...) {
					if res.Err == nil {
						stored[res.Record.Partition] = max(stored[res.Record.Partition], res.Record.Offset+1)
					} else if ctx.Err() == nil {
						k.Errorf("produce: %v", res.Err)
					}
				}
				k.pause(50 * time.Millisecond)
			}
		})

		var members []*churner
		joined, left, died := 0, 0, 0
		begun, stopped := time.Now(), false
		for time.Since(begun) < size.lasts {
			if !stopped && time.Since(begun) > size.lasts/3 {
				stopped = true
				if size.hard {
					k.must(coordinator.Kill(), "kill the coordinator")
				} else {
					k.must(coordinator.Stop(time.Minute), "stop the coordinator")
				}
			}
			switch x := rand.IntN(10); {
			case len(members) < 2 || len(members) < size.members && x < 6:
				members = append(members, c.join(ctx))
				joined++
			default:
				i := rand.IntN(len(members))
				die := x%2 == 0
				c.leave(members[i], die)
				members = append(members[:i], members[i+1:]...)
				if left++; die {
					died++
				}
			}
			if !k.pause(size.lasts / time.Duration(8*size.members)) {
				k.Fatalf("out of time")
			}
		}
		quiet()
		produced.Wait()
		calm := time.Now()
		var all int64
		for _, n := range stored {
			all += n
		}
		for lag := int64(-1); lag != 0; {
			k.asAdmin(func(adm *kadm.Client) {
				if at, err := c.positions(ctx, adm); err == nil {
					lag = all
					for _, o := range at {
						lag -= o
					}
				}
			})
			if lag != 0 && !k.pause(100*time.Millisecond) {
				k.Fatalf("%d records are neither read nor committed", lag)
			}
		}
		took := time.Since(calm)
		if took > size.idleMax {
			k.Errorf("it took %s until nothing was left to read, want %s at most", took, size.idleMax)
		}
		end()
		beside.Wait()
		for _, m := range members {
			c.leave(m, true)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for p, n := range stored {
			for o := range n {
				if !c.read[p][o] {
					k.Errorf("offset %d of partition %d was committed and never read", o, p)
				}
			}
		}
		if looks == 0 || all == 0 || c.plans.Load() < 2 {
			k.Errorf("%d looks at positions, %d records, %d plans: nothing was shown", looks, all, c.plans.Load())
		}
		k.Notef("%d joined, %d left (%d of them silently), %d generations, %d records, %d looks; nothing left to read %s after",
			joined, left, died, c.plans.Load(), all, looks, took.Round(10*time.Millisecond))
	}})
	if r.Result != Pass {
		t.Fatal(r.Detail)
	}
	t.Log(r.Detail)
}
