package compat

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cleanupMax bounds what a case may spend on putting things away.
const cleanupMax = 20 * time.Second

// stopped ends a case from within.
type stopped struct{}

// T is handed to a case: it takes the verdict and gives clients, connections
// and topics, which it puts away at the end.
type T struct {
	ctx     context.Context
	brokers []string

	mu       sync.Mutex
	failures []string
	skipped  string
	notes    []string
	cleanups []func()
	admin    *kadm.Client
	offered  map[int16]versionRange // what ApiVersions said
}

type versionRange struct{ min, max int16 }

// Errorf notes a failure and goes on.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failures) < 20 { // enough to see the pattern
		t.failures = append(t.failures, fmt.Sprintf(format, args...))
	}
}

// Fatalf notes a failure and ends the case. Only the goroutine of the case may call it.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(stopped{})
}

// Skipf ends the case because the broker does not offer what it is about.
func (t *T) Skipf(format string, args ...any) {
	t.mu.Lock()
	t.skipped = fmt.Sprintf(format, args...)
	t.mu.Unlock()
	panic(stopped{})
}

// Notef adds a measurement to the detail of a passing case.
func (t *T) Notef(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// must ends the case on an error.
func (t *T) must(err error, doing string) {
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

// wantCode compares Kafka error codes, by number and name.
func (t *T) wantCode(what string, got int16, want ...int16) {
	for _, w := range want {
		if got == w {
			return
		}
	}
	names := make([]string, len(want))
	for i, w := range want {
		names[i] = codeName(w)
	}
	t.Errorf("%s: answered %s, want %s", what, codeName(got), strings.Join(names, " or "))
}

func codeName(code int16) string {
	if code == 0 {
		return "0"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return fmt.Sprintf("%d %s", code, e.Message)
	}
	return strconv.Itoa(int(code))
}

// cleanup has f called when the case is over, last first.
func (t *T) cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *T) finish() {
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		f := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		f()
	}
}

func (t *T) result(name string, took time.Duration) Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Result{Name: name, Result: Pass, MS: took.Milliseconds(), Detail: strings.Join(t.notes, "; ")}
	switch {
	case len(t.failures) > 0:
		r.Result, r.Detail = Fail, strings.Join(t.failures, "\n")
	case t.skipped != "":
		r.Result, r.Detail = Skip, t.skipped
	}
	return r
}

// name makes a name nobody else uses.
func (t *T) name(prefix string) string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + "-" + hex.EncodeToString(b[:])
}

// client gives a franz-go client, closed at the end.
func (t *T) client(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(t.brokers...)}, opts...)...)
	t.must(err, "new client")
	t.cleanup(cl.CloseAllowingRebalance)
	return cl
}

// adm gives the admin client of the case. It is the only one that outlives ctx,
// because cleanups use it.
func (t *T) adm() *kadm.Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admin == nil {
		cl, err := kgo.NewClient(kgo.SeedBrokers(t.brokers...), kgo.MetadataMinAge(10*time.Millisecond))
		if err != nil {
			panic(err) // the options are constant
		}
		t.admin = kadm.NewClient(cl)
		t.cleanups = append([]func(){cl.Close}, t.cleanups...) // called last
	}
	return t.admin
}

// topic is a topic made for a case.
type topic struct {
	name string
	id   [16]byte
}

// topic makes a topic and waits until every partition answers. It is deleted at the end.
// It keeps everything: Apache Kafka goes by the times of records, which cases make up.
func (t *T) topic(partitions int32) topic {
	return t.topicWith(partitions, map[string]*string{"retention.ms": kmsg.StringPtr("-1")})
}

func (t *T) topicWith(partitions int32, configs map[string]*string) topic {
	return t.createTopic(t.name("compat"), partitions, configs)
}

func (t *T) createTopic(name string, partitions int32, configs map[string]*string) topic {
	_, err := t.adm().CreateTopic(t.ctx, partitions, -1, configs, name)
	t.must(err, "create topic")
	t.cleanup(func() { t.deleteTopic(name) })
	return t.await(name, int(partitions))
}

// await waits until a topic can be used: a controller's yes may be ahead of
// what the broker knows.
func (t *T) await(name string, partitions int) topic {
	var last error
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		ends, err := t.adm().ListEndOffsets(t.ctx, name)
		if err == nil {
			err = ends.Error()
		}
		if err == nil && len(ends[name]) == partitions {
			break
		}
		last = err
		if !t.pause(wait) {
			t.Fatalf("topic %s was not usable: %v", name, last)
		}
	}
	md, err := t.adm().Metadata(t.ctx, name)
	t.must(err, "metadata")
	return topic{name: name, id: [16]byte(md.Topics[name].ID)}
}

// deleteTopic removes a topic for tidiness; not being able to is no verdict.
func (t *T) deleteTopic(name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), cleanupMax/2)
	defer cancel()
	_, _ = t.adm().DeleteTopic(ctx, name)
}

// endOffset asks for the end of a partition's log.
func (t *T) endOffset(topic string, partition int32) int64 {
	ends, err := t.adm().ListEndOffsets(t.ctx, topic)
	t.must(err, "list end offsets")
	o, ok := ends.Lookup(topic, partition)
	if !ok {
		t.Fatalf("no end offset for %s/%d", topic, partition)
	}
	t.must(o.Err, "end offset")
	return o.Offset
}

// pause lets time pass where the passing of time is the subject, or between two
// looks at something that cannot be waited on. False means the case is out of time.
func (t *T) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// offers tells which versions of a request the broker advertises.
func (t *T) offers(key kmsg.Key) (versionRange, bool) {
	t.mu.Lock()
	known := t.offered
	t.mu.Unlock()
	if known == nil {
		w := t.dial()
		defer w.close()
		known = make(map[int16]versionRange)
		for _, k := range ask[*kmsg.ApiVersionsResponse](w, kmsg.NewPtrApiVersionsRequest(), 0).ApiKeys {
			known[k.ApiKey] = versionRange{k.MinVersion, k.MaxVersion}
		}
		t.mu.Lock()
		t.offered = known
		t.mu.Unlock()
	}
	r, ok := known[key.Int16()]
	return r, ok
}

// max answers the newest version of a request that both sides know, but not
// above limit; the case is skipped when there is none.
func (t *T) max(key kmsg.Key, limit int16) int16 {
	r, ok := t.offers(key)
	if !ok {
		t.Skipf("%s is not advertised", key.Name())
	}
	v := min(r.max, key.Request().MaxVersion(), limit)
	if v < r.min {
		t.Skipf("%s below version %d is not advertised", key.Name(), r.min)
	}
	return v
}

// newest is a limit that does not limit.
const newest = 1<<15 - 1

// leader answers the address of the broker that leads a partition.
func (t *T) leader(topic string, partition int32) string {
	md, err := t.adm().Metadata(t.ctx, topic)
	t.must(err, "metadata")
	p, ok := md.Topics[topic].Partitions[partition]
	if !ok {
		t.Fatalf("no partition %d in metadata of %s", partition, topic)
	}
	for _, b := range md.Brokers {
		if b.NodeID == p.Leader {
			return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		}
	}
	t.Fatalf("leader %d of %s/%d is not among the brokers", p.Leader, topic, partition)
	return ""
}

// coordinator answers the address of a group's coordinator. The first group of
// a fresh broker may have to wait for the offsets topic to be made.
func (t *T) coordinator(group string) string {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		r := t.adm().FindGroupCoordinators(t.ctx, group)
		c, ok := r[group]
		if ok && c.Err == nil {
			return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
		}
		if !t.pause(wait) {
			t.Fatalf("no coordinator for %s: %v", group, c.Err)
		}
	}
}
