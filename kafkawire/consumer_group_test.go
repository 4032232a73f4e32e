package kafkawire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"queenmq/queen"
)

func TestConsumerGroupTranscripts(t *testing.T) {
	t.Parallel()
	testTranscripts(t, "consumer_group", func(tr *transcript) func([]string) {
		s := &consumerScript{transcript: tr, topics: map[string]int{}, epochs: map[string]int32{}, has: map[string]partitionSet{}}
		s.limits = consumerLimits{membersMax: 100, bytesMax: 1 << 20, regexesMax: 3, session: 45 * time.Second, emptyKeep: 10 * time.Minute}
		s.g = newConsumerGroup(s.limits)
		return s.do
	})
}

// consumerScript runs the commands of a transcript. A label such as a is a
// client, and its member id unless it says another; it remembers its epoch and
// what it was given, and owns that unless it says otherwise.
type consumerScript struct {
	*transcript
	limits consumerLimits
	g      *consumerGroup
	image  *topicImage
	topics map[string]int
	epochs map[string]int32
	has    map[string]partitionSet
}

// idOf makes the id of topic a, b, … of one letter.
func idOf(name string) [16]byte { return [16]byte{0: name[0], 15: 1} }

// parse reads a0,a1,b2.
func (s *consumerScript) parse(text string) partitionSet {
	var ps []topicPartition
	for p := range strings.SplitSeq(text, ",") {
		if p == "" {
			continue
		}
		n, err := strconv.Atoi(p[1:])
		if err != nil {
			s.t.Fatal(err)
		}
		ps = append(ps, topicPartition{idOf(p), int32(n)})
	}
	return setOf(ps)
}

func show(ps partitionSet) string {
	var b strings.Builder
	for i, p := range ps {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%c%d", p.topic[0], p.number)
	}
	return b.String()
}

func (s *consumerScript) do(words []string) {
	s.t.Helper()
	command, words := words[0], words[1:]
	o := options{t: s.t, m: map[string]string{}}
	label := ""
	if command != "tick" && command != "limits" && command != "topics" {
		label, words = words[0], words[1:]
	}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		o.m[k] = v
	}
	id := o.text("id", label)
	epoch := int32(o.number("epoch", int(s.epochs[label])))
	switch command {
	case "limits":
		s.limits.membersMax = o.number("members", s.limits.membersMax)
		s.limits.bytesMax = o.number("bytes", s.limits.bytesMax)
		s.limits.regexesMax = o.number("regexes", s.limits.regexesMax)
		s.g = newConsumerGroup(s.limits)
		return
	case "topics": // name=partitions, 0 for gone
		for name := range o.m {
			s.topics[name] = o.number(name, 0)
		}
		var qs []queen.Queue
		for name, n := range s.topics {
			if n > 0 {
				qs = append(qs, queen.Queue{Name: name, TopicID: idOf(name), Partitions: n})
			}
		}
		s.image = imageOf(qs, 1000)
		return
	case "join", "beat":
		r := &consumerHeartbeat{memberID: id, instance: o.text("instance", ""), epoch: epoch, rebalance: -1, clientID: label, clientHost: "h"}
		if command == "join" {
			r.epoch, r.rebalance, r.knowsOwned, r.names = 0, o.duration("rebalance", time.Minute), true, []string{}
		}
		if o.has("topics") {
			r.names = strings.Split(o.text("topics", ""), ",")
			slices.Sort(r.names)
		}
		if o.has("regex") {
			regex := o.text("regex", "")
			r.regex = &regex
		}
		if o.has("assignor") {
			name := o.text("assignor", "")
			r.assignor = &name
		}
		if command == "beat" && !o.has("short") {
			r.knowsOwned, r.owned = true, s.has[label]
			if o.has("owns") {
				r.owned = s.parse(o.text("owns", ""))
			}
		}
		if o.has("full") {
			r.rebalance = time.Minute
		}
		a := s.g.heartbeat(s.now(), r, s.image)
		s.printf("  %s: %d", label, a.code)
		if a.code == 0 {
			s.epochs[label] = a.epoch
			s.printf(" epoch=%d", a.epoch)
			if a.told {
				s.has[label] = a.assignment
				s.printf(" assignment=%s", show(a.assignment))
			}
		}
		s.printf("\n")
	case "leave", "away":
		e := epochLeave
		if command == "away" {
			e = epochAway
		}
		a := s.g.leave(s.now(), id, o.text("instance", ""), e)
		s.printf("  %s: %d\n", label, a.code)
	case "evict":
		s.printf("  %s: %d\n", label, s.g.evict(s.now(), leaver{o.text("id", label), o.text("instance", "")}))
	case "commit":
		code := s.g.commit(id, epoch, int16(o.number("version", 9)), func() []topicPartition { return s.parse(o.text("of", "a0")) })
		s.printf("  %s: %d\n", label, code)
	case "fetch":
		who := &id
		if o.has("nobody") {
			who = nil
		}
		s.printf("  %s: %d\n", label, s.g.fetch(who, epoch))
	case "tick":
		end := s.at + o.duration("for", 0)
		for !s.g.forgettable() {
			next := s.g.next()
			if next.After(time.Unix(1_000_000, 0).Add(end)) {
				break
			}
			s.at = max(s.at, next.Sub(time.Unix(1_000_000, 0)))
			s.printf("  at %v\n", s.at)
			s.g.tick(s.now())
		}
		s.at = end
	default:
		s.t.Fatalf("unknown command %q", command)
	}
	s.printf("  = %s\n", s.state())
	if problem := s.g.inconsistency(); problem != "" {
		s.t.Errorf("after %s %s: %s", command, label, problem)
	}
}

func (s *consumerScript) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d/%d", s.g.state(), s.g.epoch, s.g.targetEpoch)
	for _, m := range s.g.inOrder() {
		fmt.Fprintf(&b, " %s@%d(%s", m.id, m.epoch, show(m.assigned))
		if len(m.revoking) > 0 {
			fmt.Fprintf(&b, " -%s", show(m.revoking))
		}
		if more := m.target.minus(m.assigned); len(more) > 0 {
			fmt.Fprintf(&b, " +%s", show(more))
		}
		b.WriteByte(')')
	}
	if s.g.forgettable() {
		b.WriteString(" forgettable")
	}
	return b.String()
}

// inconsistency says what is wrong inside g; "" when nothing is.
func (g *consumerGroup) inconsistency() string {
	size, static, owned := 0, 0, 0
	names, regexes := map[string]int{}, map[string]int{}
	for id, m := range g.members {
		size += m.size()
		if m.id != id {
			return fmt.Sprintf("member %q is filed under %q", m.id, id)
		}
		if m.instance != "" {
			static++
			if g.static[m.instance] != id {
				return fmt.Sprintf("instance %q names %q, not %q", m.instance, g.static[m.instance], id)
			}
		}
		for _, p := range m.assigned.or(m.revoking) {
			owned++
			if o := g.owners[p]; o.member != m {
				return fmt.Sprintf("%q has %v, which is another's", id, p)
			}
		}
		for _, name := range m.names {
			names[name]++
		}
		if m.regex != "" {
			regexes[m.regex]++
		}
		switch {
		case m.assigned.meets(m.revoking):
			return fmt.Sprintf("%q has and lets go of the same", id)
		case (m.state == reconcileRevoking) != (len(m.revoking) > 0):
			return fmt.Sprintf("%q is in state %d and lets go of %v", id, m.state, m.revoking)
		case (m.state == reconcileRevoking) != !m.revokeBy.IsZero():
			return fmt.Sprintf("%q is in state %d until %v", id, m.state, m.revokeBy)
		case m.epoch > g.targetEpoch:
			return fmt.Sprintf("%q is at epoch %d, the targets at %d", id, m.epoch, g.targetEpoch)
		case m.deadline.IsZero():
			return fmt.Sprintf("%q lives for ever", id)
		}
	}
	for name, n := range names {
		if g.names[name] != n {
			return fmt.Sprintf("%d members subscribe to %q, counted %d", n, name, g.names[name])
		}
	}
	for regex, n := range regexes {
		if g.regexes[regex] == nil || g.regexes[regex].members != n {
			return fmt.Sprintf("%d members subscribe to %q, counted otherwise", n, regex)
		}
		s := g.regexes[regex]
		size += s.bytes
		all := regexSubscription{re: s.re}
		if all.resolve(nil, g.image); !slices.Equal(s.topics, all.topics) {
			return fmt.Sprintf("%q is known to match %v, and matches %v", regex, s.topics, all.topics)
		}
	}
	switch {
	case size != g.bytes:
		return fmt.Sprintf("counts %d bytes, holds %d", g.bytes, size)
	case static != len(g.static):
		return fmt.Sprintf("%d static members, %d instances", static, len(g.static))
	case owned != len(g.owners):
		return fmt.Sprintf("%d partitions are somebody's, %d have owners", owned, len(g.owners))
	case len(names) != len(g.names) || len(regexes) != len(g.regexes):
		return "subscriptions of nobody are left"
	case g.targetEpoch > g.epoch:
		return fmt.Sprintf("targets of epoch %d in epoch %d", g.targetEpoch, g.epoch)
	}
	return ""
}
