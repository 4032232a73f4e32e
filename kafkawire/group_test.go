package kafkawire

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestGroupTranscripts(t *testing.T) {
	t.Parallel()
	testTranscripts(t, "group", func(tr *transcript) func([]string) {
		s := &script{transcript: tr, ids: map[string]string{}, minted: map[string]int{}, callers: map[ticket]string{}}
		s.limits = groupLimits{membersMax: 100, pendingMax: 100, bytesMax: 1 << 20, newcomerWait: 5 * time.Minute}
		return s.do
	})
}

// script runs the commands of a transcript on one group. A label such as a is a
// client; it remembers the member id it was last told.
type script struct {
	*transcript
	limits  groupLimits
	g       *group
	ids     map[string]string
	minted  map[string]int
	tickets ticket
	callers map[ticket]string
}

func (s *script) caller(label, what string) ticket {
	s.tickets++
	s.callers[s.tickets] = label + " " + what
	return s.tickets
}

func (s *script) do(words []string) {
	s.t.Helper()
	command, words := words[0], words[1:]
	o := options{t: s.t, m: map[string]string{}}
	label := ""
	if command != "tick" && command != "limits" {
		label, words = words[0], words[1:]
	}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		o.m[k] = v
	}
	if command == "limits" {
		s.limits.membersMax = o.number("members", s.limits.membersMax)
		s.limits.pendingMax = o.number("pending", s.limits.pendingMax)
		s.limits.bytesMax = o.number("bytes", s.limits.bytesMax)
		s.limits.initialDelay = o.duration("delay", 0)
		return
	}
	if s.g == nil {
		s.g = newGroup(s.limits)
	}
	id := o.text("id", s.ids[label])
	if o.has("new") {
		id = ""
	}
	gen := int32(o.number("gen", int(s.g.generation)))
	switch command {
	case "join":
		s.minted[label]++
		r := joinRequest{
			memberID: id, newID: label + strconv.Itoa(s.minted[label]), instance: o.text("instance", ""),
			clientID: label, protocolType: o.text("type", "consumer"),
			session: o.duration("session", 10*time.Second), rebalance: o.duration("rebalance", 30*time.Second),
			twoSteps: o.has("twosteps"), knowsSkip: o.has("knowsskip"),
		}
		for p := range strings.SplitSeq(o.text("protocols", "range:x"), ",") {
			name, metadata, _ := strings.Cut(p, ":")
			r.protocols = append(r.protocols, groupProtocol{name, []byte(metadata)})
		}
		s.tell(s.g.join(s.now(), s.caller(label, "join"), r))
	case "sync":
		r := syncRequest{memberID: id, instance: o.text("instance", ""), generation: gen, assignments: map[string][]byte{}}
		if o.has("protocol") {
			p := o.text("protocol", "")
			r.protocol = &p
		}
		if o.has("type") {
			p := o.text("type", "")
			r.protocolType = &p
		}
		for a := range strings.SplitSeq(o.text("assign", ""), ",") {
			if who, what, ok := strings.Cut(a, ":"); ok {
				r.assignments[who] = []byte(what)
			}
		}
		s.tell(s.g.sync(s.now(), s.caller(label, "sync"), r))
	case "beat":
		s.printf("  %s beat: %d\n", label, s.g.heartbeat(s.now(), id, o.text("instance", ""), gen))
	case "commit":
		s.printf("  %s commit: %d\n", label, s.g.commit(s.now(), id, o.text("instance", ""), gen))
	case "leave":
		codes, due := s.g.leave(s.now(), []leaver{{id, o.text("instance", "")}})
		s.printf("  %s leave: %d\n", label, codes[0])
		s.tell(due)
	case "tick":
		end := s.at + o.duration("for", 0)
		for {
			next := s.g.next()
			if next.IsZero() || next.After(time.Unix(1_000_000, 0).Add(end)) {
				break
			}
			s.at = max(s.at, next.Sub(time.Unix(1_000_000, 0)))
			s.printf("  at %v\n", s.at)
			s.tell(s.g.tick(s.now()))
		}
		s.at = end
	default:
		s.t.Fatalf("unknown command %q", command)
	}
	s.printf("  = %s\n", s.state())
	if problem := inconsistency(s.g); problem != "" {
		s.t.Errorf("after %s %s: %s", command, label, problem)
	}
}

func (s *script) tell(due []groupAnswer) {
	s.t.Helper()
	for _, a := range due {
		who, ok := s.callers[a.to]
		if !ok {
			s.t.Errorf("ticket %d is answered twice or was never given", a.to)
		}
		delete(s.callers, a.to)
		label, what, _ := strings.Cut(who, " ")
		s.printf("  %s: %d", who, a.code)
		if a.code == 0 || a.code == codeMemberIDRequired {
			s.ids[label] = a.memberID
			s.printf(" id=%s", a.memberID)
		}
		if a.code == 0 && what == "join" {
			s.printf(" generation=%d leader=%s protocol=%s/%s", a.generation, a.leader, a.protocolType, a.protocol)
			for _, m := range a.members {
				s.printf(" %s(%s)", m.id, m.metadata(a.protocol))
			}
			if a.skip {
				s.printf(" skip")
			}
		}
		if what == "sync" {
			if a.assignment == nil {
				s.t.Errorf("%s got a null assignment", who)
			}
			s.printf(" assignment=%q", a.assignment)
		}
		s.printf("\n")
	}
}

func (s *script) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %d", s.g.state, s.g.generation)
	for _, m := range s.g.inOrder() {
		fmt.Fprintf(&b, " %s", m.id)
		if m.id == s.g.leader {
			b.WriteByte('*')
		}
		if m.join != 0 {
			b.WriteString("(joining)")
		}
		if m.sync != 0 {
			b.WriteString("(syncing)")
		}
	}
	if ids := slices.Sorted(maps.Keys(s.g.pending)); len(ids) > 0 {
		fmt.Fprintf(&b, " pending %s", strings.Join(ids, ","))
	}
	if s.g.forgettable() {
		b.WriteString(" forgettable")
	}
	return b.String()
}

// inconsistency says what is wrong inside g; "" when nothing is.
func inconsistency(g *group) string {
	size, static := 0, 0
	for id := range g.pending {
		size += pendingSize(id)
	}
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
		if m.join != 0 && g.state != groupPreparing {
			return fmt.Sprintf("%q waits for a join phase in %v", id, g.state)
		}
		if m.sync != 0 && g.state != groupCompleting {
			return fmt.Sprintf("%q waits for assignments in %v", id, g.state)
		}
		if _, ok := g.pending[id]; ok {
			return fmt.Sprintf("%q is a member and pending", id)
		}
	}
	switch {
	case size != g.bytes:
		return fmt.Sprintf("counts %d bytes, holds %d", g.bytes, size)
	case static != len(g.static):
		return fmt.Sprintf("%d static members, %d instances", static, len(g.static))
	case len(g.members) > 0 && g.members[g.leader] == nil:
		return fmt.Sprintf("leader %q is no member", g.leader)
	case len(g.members) == 0 && g.leader != "":
		return fmt.Sprintf("nobody is left, but %q leads", g.leader)
	case len(g.members) > 0 && g.state == groupEmpty:
		return "empty with members"
	case len(g.due) > 0:
		return "answers were left behind"
	}
	return ""
}

// options are the key=value words of a command.
type options struct {
	t *testing.T
	m map[string]string
}

func (o options) has(key string) bool { _, ok := o.m[key]; return ok }

func (o options) text(key, or string) string {
	if v, ok := o.m[key]; ok {
		return v
	}
	return or
}

func (o options) number(key string, or int) int {
	if !o.has(key) {
		return or
	}
	n, err := strconv.Atoi(o.m[key])
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

func (o options) duration(key string, or time.Duration) time.Duration {
	if !o.has(key) {
		return or
	}
	d, err := time.ParseDuration(o.m[key])
	if err != nil {
		o.t.Fatal(err)
	}
	return d
}

// Ids given out and never used count like members, so that they cannot take memory
// without a bound, and no longer than they are kept.
func TestUnusedIDsCountAgainstTheBoundOnBytes(t *testing.T) {
	t.Parallel()
	const bytesMax = 10_000
	g := newGroup(groupLimits{membersMax: 9, pendingMax: 1 << 30, bytesMax: bytesMax, newcomerWait: time.Minute})
	now := time.Unix(0, 0)
	given := 0
	for {
		r := joinRequest{
			newID: fmt.Sprintf("%0200d", given), twoSteps: true, protocolType: "consumer",
			protocols: []groupProtocol{{"range", nil}}, session: time.Minute, rebalance: time.Minute,
		}
		a := g.join(now, 1, r)[0]
		if a.code == codeGroupMaxSizeReached {
			break
		}
		if a.code != codeMemberIDRequired {
			t.Fatalf("join %d is answered %d", given, a.code)
		}
		if given++; given*200 > bytesMax {
			t.Fatalf("%d ids of 200 bytes were given out, the bound is %d bytes", given, bytesMax)
		}
	}
	if why := inconsistency(g); given == 0 || why != "" {
		t.Fatalf("%d ids were given out: %s", given, why)
	}
	g.tick(now.Add(time.Minute))
	if g.bytes != 0 || !g.forgettable() {
		t.Fatalf("%d bytes are held after the ids were forgotten", g.bytes)
	}
}

func TestAssignmentIsNotShared(t *testing.T) {
	t.Parallel()
	g := newGroup(groupLimits{membersMax: 9, pendingMax: 9, bytesMax: 1 << 20, newcomerWait: time.Minute})
	now := time.Unix(0, 0)
	g.join(now, 1, joinRequest{newID: "a", protocolType: "consumer", protocols: []groupProtocol{{"range", nil}}, session: time.Minute, rebalance: time.Minute})
	frame := []byte("mine")
	due := g.sync(now, 2, syncRequest{memberID: "a", generation: 1, assignments: map[string][]byte{"a": frame}})
	copy(frame, "????") // the frame is reused
	due[0].assignment[0] = '!'
	again := g.sync(now, 3, syncRequest{memberID: "a", generation: 1})
	if !bytes.Equal(again[0].assignment, []byte("mine")) {
		t.Fatalf("assignment is now %q", again[0].assignment)
	}
}
