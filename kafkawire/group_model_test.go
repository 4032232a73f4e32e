package kafkawire

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// consumer is a client of the model: it follows the protocol as real ones do,
// until it is told to vanish.
type consumer struct {
	name       string
	instance   string
	twoSteps   bool
	metadata   string
	session    time.Duration
	rebalance  time.Duration
	memberID   string
	generation int32
	phase      string // out, joining, joined, syncing, in
	waits      ticket
	beatAt     time.Time
	wakeAt     time.Time // slow to react until then
	assigned   string
	leads      []string // the members it has to assign to
	noAssign   bool     // a leader told not to assign, or told that another leads
}

// world is a group with its clients and what must hold of them.
type world struct {
	t       *rapid.T
	g       *group
	now     time.Time
	tickets ticket
	open    map[ticket]*consumer // nil where the client has hung up
	minted  int
	clients []*consumer
	// joined[generation][member] and assigned[generation][member] are what the
	// members were told.
	leader   map[int32]string
	joined   map[int32]map[string]bool
	assigned map[int32]map[string]string
	decided  map[int32]map[string]string
}

// TestGroupModel lets clients come, crash, change, dawdle and leave for a
// while, then lets the survivors be. Always: every caller is answered exactly
// once, one leader for a generation, one assignment for a member of a
// generation, and it is the leader's. In the end: everybody who lives is in,
// nobody else is, and the group is stable.
func TestGroupModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			t: t, now: time.Unix(1_000_000, 0), open: map[ticket]*consumer{},
			leader: map[int32]string{}, joined: map[int32]map[string]bool{},
			assigned: map[int32]map[string]string{}, decided: map[int32]map[string]string{},
		}
		w.g = newGroup(groupLimits{
			membersMax: 100, pendingMax: 100, bytesMax: 1 << 20, newcomerWait: 5 * time.Minute,
			initialDelay: rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "delay"),
		})
		for range rapid.IntRange(0, 120).Draw(t, "churn") {
			w.disturb()
			w.pass(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
		}
		for _, c := range w.clients {
			c.wakeAt = w.now
		}
		// Pending ids and sessions end within 20 s, a join phase within 30 s, a sync
		// phase within 30 s, each of which may follow the one before.
		w.pass(5 * time.Minute)
		w.settled()
	})
}

// disturb does one thing to the clients.
func (w *world) disturb() {
	t := w.t
	var c *consumer
	if len(w.clients) > 0 {
		c = rapid.SampledFrom(w.clients).Draw(t, "client")
	}
	switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
	case what <= 2 || c == nil:
		if len(w.clients) >= 6 {
			return
		}
		w.minted++
		c = &consumer{
			name: fmt.Sprintf("c%d", w.minted), phase: "out", metadata: "m",
			twoSteps:  rapid.Bool().Draw(t, "twosteps"),
			session:   time.Duration(rapid.IntRange(6, 20).Draw(t, "session")) * time.Second,
			rebalance: time.Duration(rapid.IntRange(6, 30).Draw(t, "rebalance")) * time.Second,
		}
		if rapid.IntRange(0, 2).Draw(t, "static") == 0 {
			c.instance = rapid.SampledFrom([]string{"i1", "i2", "i3"}).Draw(t, "instance")
			for _, other := range w.clients {
				if other.instance == c.instance { // as an operator would: one of them
					c.instance = ""
				}
			}
		}
		w.clients = append(w.clients, c)
	case what <= 4: // crashes; a static one is often back at once, with no memory
		w.hangUp(c)
		if c.instance != "" && rapid.Bool().Draw(t, "back") {
			c.memberID, c.phase, c.generation = "", "out", 0
			return
		}
		w.clients = slices.DeleteFunc(w.clients, func(o *consumer) bool { return o == c })
	case what == 5: // leaves
		w.hangUp(c)
		if c.memberID != "" {
			_, due := w.g.leave(w.now, []leaver{{c.memberID, c.instance}})
			w.tell(due)
		}
		w.clients = slices.DeleteFunc(w.clients, func(o *consumer) bool { return o == c })
	case what == 6: // subscribes to something else
		c.metadata += "x"
		if c.phase == "in" || c.phase == "joined" {
			c.phase = "out"
		}
	case what == 7: // loses its connection while it waits, and asks again
		if c.waits != 0 {
			w.hangUp(c)
			c.phase = map[string]string{"joining": "out", "syncing": "joined"}[c.phase]
		}
	case what == 8: // is busy
		c.wakeAt = w.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "busy")) * time.Second)
	case what == 9: // an impostor
		due := w.g.sync(w.now, w.ticket(nil), syncRequest{memberID: c.memberID + "?", generation: w.g.generation})
		w.tell(due)
	}
}

func (w *world) hangUp(c *consumer) {
	if c.waits != 0 {
		w.open[c.waits] = nil
		c.waits = 0
	}
}

func (w *world) ticket(c *consumer) ticket {
	w.tickets++
	w.open[w.tickets] = c
	if c != nil {
		c.waits = w.tickets
	}
	return w.tickets
}

// pass lets time go by in steps of at most half a second.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); ; {
		for _, c := range w.clients {
			w.act(c)
		}
		if !w.now.Before(end) {
			return
		}
		step := min(end.Sub(w.now), 500*time.Millisecond)
		if next := w.g.next(); !next.IsZero() && next.Before(w.now.Add(step)) {
			step = max(next.Sub(w.now), 0)
		}
		w.now = w.now.Add(step)
		if next := w.g.next(); !next.IsZero() && !w.now.Before(next) {
			w.tell(w.g.tick(w.now))
			if again := w.g.next(); !again.IsZero() && !w.now.Before(again) {
				w.t.Fatalf("tick left work due at %v undone", again)
			}
		}
	}
}

// act is one step of a well-behaved client.
func (w *world) act(c *consumer) {
	if w.now.Before(c.wakeAt) {
		return
	}
	switch c.phase {
	case "out":
		c.phase = "joining"
		w.minted++
		w.tell(w.g.join(w.now, w.ticket(c), joinRequest{
			memberID: c.memberID, newID: fmt.Sprintf("%s-%d", c.name, w.minted), instance: c.instance,
			clientID: "same", protocolType: "consumer", protocols: []groupProtocol{{"range", []byte(c.metadata)}},
			session: c.session, rebalance: c.rebalance, twoSteps: c.twoSteps, knowsSkip: c.twoSteps,
		}))
	case "joined":
		c.phase = "syncing"
		r := syncRequest{memberID: c.memberID, instance: c.instance, generation: c.generation, assignments: map[string][]byte{}}
		if w.leader[c.generation] == c.memberID && !c.noAssign && w.decided[c.generation] == nil {
			w.decided[c.generation] = map[string]string{}
		}
		if c.leads != nil && !c.noAssign {
			for _, id := range c.leads {
				r.assignments[id] = fmt.Appendf(nil, "%s in %d", id, c.generation)
				w.decided[c.generation][id] = string(r.assignments[id])
			}
		}
		w.tell(w.g.sync(w.now, w.ticket(c), r))
	case "in":
		if w.now.Before(c.beatAt) {
			return
		}
		c.beatAt = w.now.Add(2 * time.Second)
		w.react(c, w.g.heartbeat(w.now, c.memberID, c.instance, c.generation))
	}
}

// react does what a client does on a code other than 0.
func (w *world) react(c *consumer, code int16) {
	switch code {
	case 0:
		return
	case codeUnknownMemberID:
		c.memberID = ""
	case codeFencedInstanceID: // fatal for a real client; here it starts anew
		c.memberID = ""
	case codeRebalanceInProgress, codeIllegalGeneration:
	default:
		w.t.Fatalf("%s got %d", c.name, code)
	}
	c.phase = "out"
}

func (w *world) tell(due []groupAnswer) {
	for _, a := range due {
		c, ok := w.open[a.to]
		if !ok {
			w.t.Fatalf("ticket %d is answered twice, or was never given", a.to)
		}
		delete(w.open, a.to)
		if a.code == 0 {
			w.check(a)
		}
		if c == nil {
			continue
		}
		c.waits = 0
		switch {
		case a.code == codeMemberIDRequired:
			c.memberID, c.phase = a.memberID, "out"
		case a.code != 0:
			w.react(c, a.code)
		case a.assignment != nil:
			c.phase, c.assigned, c.beatAt = "in", string(a.assignment), w.now
		default:
			c.memberID, c.generation, c.phase = a.memberID, a.generation, "joined"
			c.leads, c.noAssign = nil, a.skip || a.leader != a.memberID
			for _, m := range a.members {
				c.leads = append(c.leads, m.id)
			}
		}
	}
	if problem := inconsistency(w.g); problem != "" {
		w.t.Fatal(problem)
	}
	waiting := 0
	for _, m := range w.g.members {
		for _, t := range []ticket{m.join, m.sync} {
			if t != 0 {
				waiting++
				if _, ok := w.open[t]; !ok {
					w.t.Fatalf("%q waits with an answered ticket", m.id)
				}
			}
		}
	}
	if waiting != len(w.open) {
		w.t.Fatalf("%d callers wait, the group knows %d", len(w.open), waiting)
	}
}

// check holds an answer without error against those before it.
func (w *world) check(a groupAnswer) {
	gen := a.generation
	if a.assignment == nil {
		if w.joined[gen] == nil {
			w.joined[gen], w.assigned[gen] = map[string]bool{}, map[string]string{}
		}
		w.joined[gen][a.memberID] = true
		if len(a.members) == 0 {
			return
		}
		if a.leader != a.memberID {
			w.t.Fatalf("%q got the members of generation %d, which %q leads", a.memberID, gen, a.leader)
		}
		if old := w.leader[gen]; old != "" && old != a.leader && !a.skip {
			w.t.Fatalf("generation %d has leaders %q and %q", gen, old, a.leader)
		}
		w.leader[gen] = a.leader
		return
	}
	if was, ok := w.assigned[gen][a.memberID]; ok && was != string(a.assignment) {
		w.t.Fatalf("%q got %q, then %q in generation %d", a.memberID, was, a.assignment, gen)
	}
	w.assigned[gen][a.memberID] = string(a.assignment)
	if decided := w.decided[gen]; !slices.ContainsFunc(values(decided), func(s string) bool { return s == string(a.assignment) }) {
		w.t.Fatalf("%q got %q in generation %d, the leader gave %v", a.memberID, a.assignment, gen, decided)
	}
	if want, ok := w.decided[gen][a.memberID]; ok && want != string(a.assignment) {
		w.t.Fatalf("%q got %q in generation %d, the leader gave it %q", a.memberID, a.assignment, gen, want)
	}
}

func values(m map[string]string) []string {
	var all []string
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// settled checks what must be true once nobody disturbs the clients.
func (w *world) settled() {
	want := groupStable
	if len(w.clients) == 0 {
		want = groupEmpty
	}
	if w.g.state != want || len(w.g.pending) > 0 || len(w.open) > 0 {
		w.t.Fatalf("the group is %v with %d pending ids and %d callers waiting", w.g.state, len(w.g.pending), len(w.open))
	}
	if len(w.g.members) != len(w.clients) {
		w.t.Fatalf("%d members for %d clients", len(w.g.members), len(w.clients))
	}
	seen := map[string]bool{}
	for _, c := range w.clients {
		if c.phase != "in" || c.generation != w.g.generation || w.g.members[c.memberID] == nil {
			w.t.Fatalf("%s is %s in generation %d of %d as %q", c.name, c.phase, c.generation, w.g.generation, c.memberID)
		}
		if c.assigned == "" || seen[c.assigned] {
			w.t.Fatalf("%s has %q, as has another", c.name, c.assigned)
		}
		seen[c.assigned] = true
	}
}
