//go:build java

package compat

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
	"queenmq/compat/kafkanode"
)

// expected lists the differences that are meant: kafkawire/DESIGN.md says why.
const expected = "expect/diff.txt"

// The same conversations with Apache Kafka and with us are answered alike, field
// by field, but for what expect/diff.txt lists. A line there that no longer
// happens fails as well, so that the list shrinks.
func TestAnswersAreThoseOfApacheKafka(t *testing.T) {
	t.Parallel()
	ours, theirs := asShipped(t), apacheKafka(t)
	served := commonVersions(t, ours, theirs)
	used := map[string]bool{}
	lines := expectations(t)
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			us, them := converse(t, ours, served, c), converse(t, theirs, served, c)
			answers := 0
			for i := range max(len(us), len(them)) {
				if i >= len(us) || i >= len(them) || us[i].label != them[i].label {
					t.Fatalf("the conversation took another course at step %d of %d and %d", i, len(us), len(them))
				}
				answers++
				for _, d := range differences(us[i], them[i]) {
					line := c.name + "/" + us[i].label + " " + d
					if e := match(lines, line); e != "" {
						used[e] = true
						continue
					}
					t.Errorf("%s", line)
				}
			}
			t.Logf("%d answers", answers)
		})
	}
	if t.Failed() {
		return
	}
	for _, e := range lines {
		if !used[e] {
			t.Errorf("%s: this difference is no more, take it out: %s", expected, e)
		}
	}
}

// asShipped is COMPAT_SEEDS, or else a broker of ours with the defaults that it answers;
// the one that tests share has others.
func asShipped(t *testing.T) string {
	t.Helper()
	if os.Getenv("COMPAT_SEEDS") != "" {
		return seeds(t)[0]
	}
	return start(t, broker.Config{DataDir: broker.TempDataDir(t)}).Kafka
}

// apacheKafka is COMPAT_KAFKA, or else a node of its own.
func apacheKafka(t *testing.T) string {
	t.Helper()
	if addr := os.Getenv("COMPAT_KAFKA"); addr != "" {
		return addr
	}
	n, err := kafkanode.Start(t.Context(), kafkanode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n.Addr
}

func expectations(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(expected)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(b)), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#")
	})
}

// match finds the expectation that a difference is one of: glob patterns, one for
// each of its words. A pattern's star reaches over slashes.
func match(lines []string, difference string) string {
	words := strings.Fields(difference)
	flat := func(s string) string { return strings.NewReplacer("/", "\x00", "[", "(", "]", ")").Replace(s) }
	for _, line := range lines {
		patterns := strings.Fields(line)
		if len(patterns) != len(words) {
			continue
		}
		ok := true
		for i, p := range patterns {
			hit, err := path.Match(flat(p), flat(words[i]))
			ok = ok && hit && err == nil
		}
		if ok {
			return line
		}
	}
	return ""
}

// conversation is a sequence of requests to one broker.
type conversation struct {
	name string
	run  func(s *side)
}

// conversations cover the requests that both serve: valid ones at every version,
// and what may be wrong with them at the oldest and the newest.
var conversations = []conversation{
	{"metadata", diffMetadata},
	{"topics", diffTopics},
	{"produce", diffProduce},
	{"idempotence", diffIdempotence},
	{"fetch", diffFetch},
	{"offsets", diffOffsets},
	{"groups", diffGroups},
	{"commits", diffCommits},
	{"consumer-groups", diffConsumerGroups},
	{"configs", diffConfigs},
	{"partitions", diffPartitions},
	{"inspection", diffInspection},
}

// side is one broker's part in a conversation.
type side struct {
	*T
	w       *wire
	served  map[int16]versionRange
	answers []answerSeen
	topics  map[[16]byte]string // id → name
	members map[string]string   // id → label
	version int16               // of the request in hand
}

// answerSeen is an answer as a map from a field's path to what it says.
type answerSeen struct {
	label  string
	fields map[string]string
}

func converse(t *testing.T, addr string, served map[int16]versionRange, c conversation) []answerSeen {
	t.Helper()
	var s *side
	r := RunCase(t.Context(), Options{Brokers: []string{addr}, Timeout: 3 * time.Minute}, Case{c.name, func(_ context.Context, k *T) {
		s = &side{T: k, served: served, topics: map[[16]byte]string{}, members: map[string]string{}}
		s.w = k.dial()
		s.ready()
		c.run(s)
	}})
	if r.Result != Pass {
		t.Fatalf("%s: %s", addr, r.Detail)
	}
	return s.answers
}

// ready waits until groups are coordinated and producer ids given out: a broker
// that has just started may ask for patience.
func (s *side) ready() {
	loading := func(code int16) bool {
		return code == kerr.CoordinatorLoadInProgress.Code || code == kerr.CoordinatorNotAvailable.Code || code == kerr.NotCoordinator.Code
	}
	await := func(what string, ask func() int16) {
		for loading(ask()) {
			if !s.pause(50 * time.Millisecond) {
				s.Fatalf("%s is not to be had", what)
			}
		}
	}
	await("a producer id", func() int16 {
		return ask[*kmsg.InitProducerIDResponse](s.w, kmsg.NewPtrInitProducerIDRequest(), 0).ErrorCode
	})
	for i := range 32 { // more than there are partitions of Kafka's topic of groups
		group := fmt.Sprint("diff-ready-", i)
		s.coordinator(group)
		await("a coordinator", func() int16 {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID = group, "nobody"
			return ask[*kmsg.HeartbeatResponse](s.w, req, 0).ErrorCode
		})
	}
}

// commonVersions are those that both advertise, and kmsg knows.
func commonVersions(t *testing.T, addrs ...string) map[int16]versionRange {
	t.Helper()
	var all map[int16]versionRange
	for _, addr := range addrs {
		r := RunCase(t.Context(), Options{Brokers: []string{addr}}, Case{"versions", func(_ context.Context, k *T) {
			k.offers(kmsg.Metadata)
			these := maps.Clone(k.offered)
			for key, v := range all {
				o, ok := these[key]
				if !ok {
					delete(all, key)
					continue
				}
				all[key] = versionRange{max(v.min, o.min), min(v.max, o.max)}
			}
			if all == nil {
				all = these
			}
		}})
		if r.Result != Pass {
			t.Fatal(r.Detail)
		}
	}
	for key, v := range all {
		req := kmsg.RequestForKey(key)
		if req == nil {
			delete(all, key)
			continue
		}
		v.max = min(v.max, req.MaxVersion())
		if key == kmsg.Produce.Int16() {
			v.min = 3 // what is below is advertised and not served
		}
		all[key] = v
	}
	return all
}

// each has f make a request for every version that both serve, and asks it.
func (s *side) each(label string, f func() kmsg.Request) {
	r, ok := s.served[f().Key()]
	if !ok {
		s.Fatalf("%s is not served by both", kmsg.NameForKey(f().Key()))
	}
	for v := r.min; v <= r.max; v++ {
		s.version = v
		s.ask(label, v, f())
	}
}

// ends is each for the oldest and the newest version alone.
func (s *side) ends(label string, f func() kmsg.Request) {
	r, ok := s.served[f().Key()]
	if !ok {
		s.Fatalf("%s is not served by both", kmsg.NameForKey(f().Key()))
	}
	for _, v := range slices.Compact([]int16{r.min, r.max}) {
		s.version = v
		s.ask(label, v, f())
	}
}

// last asks once, in the newest version.
func (s *side) last(label string, req kmsg.Request) kmsg.Response {
	return s.ask(label, s.served[req.Key()].max, req)
}

// ask sends a request and notes the answer. A connection that is closed instead,
// or stays silent, is an answer too.
func (s *side) ask(label string, version int16, req kmsg.Request) kmsg.Response {
	corr := s.w.send(req, version)
	label = fmt.Sprintf("%s:%s-v%d", label, kmsg.NameForKey(req.Key()), version)
	s.must(s.w.conn.SetReadDeadline(time.Now().Add(20*time.Second)), "set a deadline")
	got, err := s.w.read()
	if err != nil {
		how := "closed"
		if errors.Is(err, os.ErrDeadlineExceeded) {
			how = "silent"
		}
		s.answers = append(s.answers, answerSeen{label, map[string]string{"connection": how}})
		s.w = s.dial()
		return nil
	}
	if got.corr != corr {
		s.Fatalf("%s: the answer is to another request", label)
	}
	resp, err := decode(got.body, req)
	s.must(err, "decode "+label)
	fields := map[string]string{}
	s.walk(reflect.ValueOf(resp).Elem(), "", fields)
	s.answers = append(s.answers, answerSeen{label, fields})
	return resp
}

// identity are fields that tell elements of a list apart.
var identity = []string{"Topic", "Name", "Group", "Partition", "ApiKey", "ResourceName", "Key", "MemberID", "InstanceID", "TopicID", "Index"}

// walk notes the fields of an answer, without what is a broker's own.
func (s *side) walk(v reflect.Value, at string, out map[string]string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			out[at] = "null"
			return
		}
		s.walk(v.Elem(), at, out)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "Version" || f.Name == "UnknownTags" || f.Name == "ThrottleMillis" {
				continue
			}
			name := at + "." + f.Name
			if said, ok := s.plain(f.Name, v.Field(i)); ok {
				out[name] = said
			} else {
				s.walk(v.Field(i), name, out)
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			out[at+"#"] = "null"
			return
		}
		out[at+"#"] = fmt.Sprint(v.Len())
		for i := range v.Len() {
			key := fmt.Sprint(i)
			if e := v.Index(i); e.Kind() == reflect.Struct {
				for _, name := range identity {
					if f := e.FieldByName(name); f.IsValid() {
						if said, ok := s.plain(name, f); ok && said != "null" && said != `""` {
							key = said
							break
						}
					}
				}
			}
			name := fmt.Sprintf("%s(%s)", at, key)
			for n := 2; seen(out, name); n++ {
				name = fmt.Sprintf("%s(%s#%d)", at, key, n)
			}
			s.walk(v.Index(i), name, out)
		}
	default:
		said, _ := s.plain("", v)
		out[at] = said
	}
}

func seen(out map[string]string, prefix string) bool {
	for k := range out {
		if strings.HasPrefix(k, prefix+".") || k == prefix {
			return true
		}
	}
	return false
}

// plain says what a field holds, in words that do not depend on the broker:
// ids, addresses, clocks and texts for people are put in words of their own.
func (s *side) plain(name string, v reflect.Value) (string, bool) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "null", true
		}
		if v.Elem().Kind() == reflect.Struct {
			return "", false
		}
		return s.plain(name, v.Elem())
	}
	if id, ok := v.Interface().([16]byte); ok {
		return s.topicName(id), true
	}
	switch v.Kind() {
	case reflect.Struct:
		return "", false
	case reflect.Slice:
		if b, ok := v.Interface().([]byte); ok {
			return s.bytes(name, b), true
		}
		if e := v.Type().Elem(); e.Kind() == reflect.Struct || e.Kind() == reflect.Pointer {
			return "", false
		}
		if name == "Replicas" || name == "ISR" {
			return fmt.Sprintf("%d-brokers", v.Len()), true
		}
		if v.IsNil() {
			return "null", true
		}
		return strings.ReplaceAll(fmt.Sprintf("%d:%v", v.Len(), v.Interface()), " ", ","), true
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return s.number(name, v.Int()), true
	case reflect.String:
		return s.text(name, v.String()), true
	}
	return fmt.Sprint(v.Interface()), true
}

func (s *side) topicName(id [16]byte) string {
	switch name, ok := s.topics[id]; {
	case ok:
		return "id-of-" + name
	case id == [16]byte{}:
		return "no-id"
	}
	return "some-id"
}

func (s *side) number(name string, n int64) string {
	switch name {
	case "NodeID", "ControllerID", "Leader", "LeaderID", "BrokerID":
		if n >= 0 {
			return "a-broker"
		}
	case "LeaderEpoch", "CurrentLeaderEpoch":
		if n >= 0 {
			return "an-epoch"
		}
	case "ProducerID":
		if n >= 0 {
			return "one"
		}
	case "SessionID", "LogAppendTime", "Port":
		if n > 0 {
			return "one"
		}
	}
	return fmt.Sprint(n)
}

func (s *side) text(name, text string) string {
	switch name {
	case "ErrorMessage", "Documentation":
		if text == "" {
			return "null" // no text is no text
		}
		return "text"
	case "ClusterID", "Host":
		if text != "" {
			return "one"
		}
	case "MemberID", "LeaderID", "Leader":
		if label, ok := s.members[text]; ok {
			return label
		}
		if text != "" {
			return "a-member"
		}
	}
	if label, ok := s.members[text]; ok {
		return label
	}
	return strings.ReplaceAll(fmt.Sprintf("%q", text), " ", "_")
}

// bytes leaves a batch's leader epoch out, which each broker writes as its own.
func (s *side) bytes(name string, b []byte) string {
	if b == nil {
		return "null"
	}
	if name == "RecordBatches" {
		b = slices.Clone(b)
		for rest := b; len(rest) > 16; {
			n := 12 + int(binary.BigEndian.Uint32(rest[8:]))
			clear(rest[12:16])
			if n > len(rest) {
				break
			}
			rest = rest[n:]
		}
	}
	if len(b) > 32 {
		return fmt.Sprintf("%d-bytes-%x…", len(b), crcOf(b))
	}
	return fmt.Sprintf("%d-bytes-%x", len(b), b)
}

// differences lists `PATH ours=… kafka=…`, in order.
func differences(us, them answerSeen) []string {
	all := maps.Clone(us.fields)
	maps.Copy(all, them.fields)
	said := func(a answerSeen, k string) string {
		if v, ok := a.fields[k]; ok {
			if v == "" {
				return "empty"
			}
			return v
		}
		return "absent"
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if a, b := said(us, k), said(them, k); a != b {
			out = append(out, fmt.Sprintf("%s ours=%s kafka=%s", k, a, b))
		}
	}
	return out
}
