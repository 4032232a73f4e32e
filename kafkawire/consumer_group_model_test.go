package kafkawire

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"queenmq/queen"
)

// subscriber is a client of the model: it reads from what it owns, lets go of
// what it is told to, and takes what it is given.
type subscriber struct {
	id, instance string
	names        []string
	regex        *string
	epoch        int32
	in           bool // believes to be a member
	owns         partitionSet
	given        partitionSet // what it was last told it has
	said         partitionSet // what it last said it owns
	beatAt       time.Time
	wakeAt       time.Time // slow to react until then
	lostAnswer   bool      // the next answer is lost
	full         bool      // the next heartbeat tells everything
}

// market is a consumer group with its clients and topics.
type market struct {
	t       *rapid.T
	g       *consumerGroup
	now     time.Time
	minted  int
	widths  map[string]int
	image   *topicImage
	clients []*subscriber
	epochs  map[string]int32 // the highest each member id was told
}

var modelLimits = consumerLimits{membersMax: 100, bytesMax: 1 << 20, regexesMax: 10, session: 45 * time.Second, emptyKeep: time.Minute}

// TestConsumerGroupModel lets clients come, crash, change, dawdle and leave for
// a while, and topics come, grow and go. Always: no two members own one
// partition, whatever they were told and whatever answers were lost. In the
// end: every partition that somebody subscribes to is owned, by one who does.
func TestConsumerGroupModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &market{t: t, now: time.Unix(1_000_000, 0), g: newConsumerGroup(modelLimits), widths: map[string]int{"a": 4}, epochs: map[string]int32{}}
		w.show()
		for range rapid.IntRange(0, 100).Draw(t, "churn") {
			w.disturb()
			w.pass(time.Duration(rapid.IntRange(0, 9000).Draw(t, "ms")) * time.Millisecond)
		}
		for _, c := range w.clients {
			c.wakeAt, c.lostAnswer = w.now, false
		}
		w.pass(3 * time.Minute) // sessions end within 45 s, rebalances within 60 s
		w.settled()
	})
}

func (w *market) show() {
	var qs []queen.Queue
	for name, n := range w.widths {
		qs = append(qs, queen.Queue{Name: name, TopicID: idOf(name), Partitions: n})
	}
	w.image = imageOf(qs, 1000)
}

// disturb does one thing to clients or topics.
func (w *market) disturb() {
	t := w.t
	var c *subscriber
	if len(w.clients) > 0 {
		c = w.clients[rapid.IntRange(0, len(w.clients)-1).Draw(t, "client")]
	}
	switch what := rapid.IntRange(0, 11).Draw(t, "what"); {
	case what <= 2 || c == nil:
		if len(w.clients) >= 6 {
			return
		}
		w.minted++
		c = &subscriber{id: fmt.Sprint("m", w.minted)}
		w.subscribe(c)
		if rapid.IntRange(0, 2).Draw(t, "static") == 0 {
			c.instance = rapid.SampledFrom([]string{"i1", "i2"}).Draw(t, "instance")
			for _, other := range w.clients {
				if other.instance == c.instance {
					c.instance = ""
				}
			}
		}
		w.clients = append(w.clients, c)
	case what == 3: // crashes
		w.clients = slices.DeleteFunc(w.clients, func(o *subscriber) bool { return o == c })
	case what == 4: // leaves
		w.leave(c, epochLeave)
		w.clients = slices.DeleteFunc(w.clients, func(o *subscriber) bool { return o == c })
	case what == 5: // a static one is restarted
		if c.instance == "" {
			return
		}
		w.leave(c, epochAway)
		w.minted++
		*c = subscriber{id: fmt.Sprint("m", w.minted), instance: c.instance, names: c.names, regex: c.regex, beatAt: w.now}
	case what == 6:
		w.subscribe(c)
		c.full, c.beatAt = true, w.now
	case what == 7:
		c.lostAnswer = true
	case what == 8: // is busy, perhaps for too long
		c.wakeAt = w.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "busy")) * time.Second)
	case what == 9: // an impostor
		w.g.heartbeat(w.now, &consumerHeartbeat{memberID: c.id, epoch: w.g.epoch + 1, rebalance: -1, knowsOwned: true}, w.image)
	default:
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic")
		switch {
		case rapid.Bool().Draw(t, "goes"):
			delete(w.widths, name)
		default:
			w.widths[name] += rapid.IntRange(1, 3).Draw(t, "more")
		}
		w.show()
	}
	w.check()
}

func (w *market) subscribe(c *subscriber) {
	c.names = rapid.SampledFrom([][]string{{}, {"a"}, {"a", "b"}, {"b", "c"}}).Draw(w.t, "names")
	regex := rapid.SampledFrom([]string{"", "", "[bc]", "."}).Draw(w.t, "regex")
	c.regex = &regex
}

func (w *market) leave(c *subscriber, epoch int32) {
	if c.in {
		w.g.leave(w.now, c.id, c.instance, epoch)
	}
	c.owns = nil
}

// pass lets time go by in steps of at most half a second.
func (w *market) pass(d time.Duration) {
	for end := w.now.Add(d); ; {
		for _, c := range w.clients {
			w.act(c)
			w.check()
		}
		if !w.now.Before(end) {
			return
		}
		w.now = w.now.Add(min(end.Sub(w.now), 500*time.Millisecond))
		if next := w.g.next(); !next.IsZero() && !w.now.Before(next) {
			w.g.tick(w.now)
			if again := w.g.next(); !w.g.forgettable() && !w.now.Before(again) {
				w.t.Fatalf("tick left work due at %v undone", again)
			}
		}
		w.check()
	}
}

// act is one step of a well-behaved client.
func (w *market) act(c *subscriber) {
	if w.now.Before(c.wakeAt) {
		return
	}
	if c.in && !slices.Equal(c.owns, c.given) {
		// First it lets go, then it takes: it says so in either case.
		c.owns = c.given
		c.beatAt = w.now
	}
	if w.now.Before(c.beatAt) {
		return
	}
	c.beatAt = w.now.Add(5 * time.Second)
	r := &consumerHeartbeat{memberID: c.id, instance: c.instance, epoch: c.epoch, rebalance: -1, clientID: "same"}
	if !c.in {
		r.epoch = 0
	}
	if !c.in || c.full {
		r.rebalance, r.names, r.regex, r.knowsOwned, r.owned = time.Minute, c.names, c.regex, true, c.owns
	} else if !slices.Equal(c.said, c.owns) {
		r.knowsOwned, r.owned = true, c.owns
	}
	c.said = c.owns
	a := w.g.heartbeat(w.now, r, w.image)
	w.check()
	if a.code == 0 && a.memberID != c.id {
		w.t.Fatalf("%s is told of %s", c.id, a.memberID)
	}
	if c.lostAnswer {
		c.lostAnswer, c.full = false, true
		return
	}
	c.full = false
	switch a.code {
	case codeNone:
		if a.epoch < w.epochs[c.id] {
			w.t.Fatalf("%s was at epoch %d and is at %d", c.id, w.epochs[c.id], a.epoch)
		}
		w.epochs[c.id] = a.epoch
		c.in, c.epoch = true, a.epoch
		if a.told {
			c.given = a.assignment
		} else if r.full() || r.epoch == 0 {
			w.t.Fatalf("%s told everything and was told nothing", c.id)
		}
	case codeUnknownMemberID, codeFencedMemberEpoch: // gives up everything and joins again
		c.in, c.epoch, c.owns, c.given, c.said = false, 0, nil, nil, nil
	case codeUnreleasedInstanceID:
		if c.in || c.instance == "" {
			w.t.Fatalf("%s is told that its instance is another's", c.id)
		}
	default:
		w.t.Fatalf("%s got %d: %s", c.id, a.code, a.message)
	}
}

// check holds the group against itself, and the members against each other: a
// client that is no member any more will be told so, and counts no longer.
func (w *market) check() {
	if problem := w.g.inconsistency(); problem != "" {
		w.t.Fatal(problem)
	}
	for _, c := range w.clients {
		m := w.g.members[c.id]
		if m == nil {
			continue
		}
		for _, p := range c.owns {
			if o := w.g.owners[p]; o.member != m {
				w.t.Fatalf("%s owns %c%d, which the group may give or has given away", c.id, p.topic[0], p.number)
			}
		}
	}
}

// settled checks what must be true once nobody disturbs the clients.
func (w *market) settled() {
	want := "Stable"
	if len(w.clients) == 0 {
		want = "Empty"
	}
	if w.g.state() != want || len(w.g.members) != len(w.clients) {
		w.t.Fatalf("the group is %s with %d members for %d clients", w.g.state(), len(w.g.members), len(w.clients))
	}
	owner := map[topicPartition]string{}
	for _, c := range w.clients {
		m := w.g.members[c.id]
		if m == nil || c.epoch != w.g.epoch || !slices.Equal(m.assigned, c.owns) {
			w.t.Fatalf("%s at epoch %d owns %v, the group says %+v at %d", c.id, c.epoch, c.owns, m, w.g.epoch)
		}
		for _, p := range c.owns {
			owner[p] = c.id
		}
	}
	for name, n := range w.widths {
		wanted := func(c *subscriber) bool {
			return slices.Contains(c.names, name) || *c.regex == "." || *c.regex == "[bc]" && name != "a"
		}
		somebody := slices.ContainsFunc(w.clients, wanted)
		for _, p := range partitionsOf(idOf(name), int32(n)) {
			if (owner[p] != "") != somebody {
				w.t.Fatalf("%s%d is owned by %q; is it subscribed to: %v", name, p.number, owner[p], somebody)
			}
			at := slices.IndexFunc(w.clients, func(c *subscriber) bool { return c.id == owner[p] })
			if somebody && !wanted(w.clients[at]) {
				w.t.Fatalf("%s%d is owned by %q, which does not subscribe", name, p.number, owner[p])
			}
			delete(owner, p)
		}
	}
	if len(owner) > 0 {
		w.t.Fatalf("owned, and not there: %v", owner)
	}
}
