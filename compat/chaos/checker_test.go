package chaos

import (
	"strings"
	"testing"
	"time"
)

func log(ids ...string) []Entry {
	var es []Entry
	for i, id := range ids {
		es = append(es, Entry{Offset: int64(i), ID: id, Client: "a", Seq: -1})
	}
	return es
}

func ack(id string, offset int64, start, end time.Duration) Write {
	return Write{Client: "a", Partition: "p", ID: id, Seq: -1, Start: start, End: end, Outcome: Stored, Offset: offset}
}

func told(o Outcome, id string, offset int64) Write {
	return Write{Client: "a", Partition: "p", ID: id, Seq: -1, Start: 6, End: 7, Outcome: o, Offset: offset}
}

func unknown(id string, start time.Duration) Write {
	return Write{Client: "a", Partition: "p", ID: id, Seq: -1, Start: start, End: start + 1, Outcome: Unknown}
}

func named(w Write, message string) Write {
	w.Message = message
	return w
}

func TestCheckerTakesGoodHistories(t *testing.T) {
	t.Parallel()
	h := NewHistory()
	for _, w := range []Write{
		ack("m0", 0, 1, 5), ack("m1", 1, 2, 4), // at once: either order
		ack("m2", 2, 6, 7),
		told(Unknown, "m3", 0), told(Duplicate, "m3", 3), told(Duplicate, "m3", 3), // stored, answer lost
		told(Unknown, "m4", 0), ack("m4", 4, 9, 10), // not stored at first
		told(Unknown, "m5", 0), // stored, never repeated
		told(Unknown, "m6", 0), // not stored
		told(Failed, "m7", 0),  // not stored
		// Pushed by two clients at once.
		named(told(Stored, "m8", 6), "M8"), named(told(Duplicate, "m8", 6), "M8"), named(told(Duplicate, "m8", 6), "M8"),
	} {
		h.Write(w)
	}
	h.End(End{Client: "a", Partition: "p", Start: 1, End: 2, Offset: 0})
	h.End(End{Client: "b", Partition: "p", Start: 8, End: 9, Offset: 7})
	for _, e := range log("m0", "m1", "m2", "m3", "m4", "m5", "m8")[2:5] {
		h.Read("r", "p", e)
	}
	if got := Check(h, map[string][]Entry{"p": log("m0", "m1", "m2", "m3", "m4", "m5", "m8")}); len(got) > 0 {
		t.Errorf("found %q", got)
	}
}

func TestCheckerCatchesBadHistories(t *testing.T) {
	t.Parallel()
	seq := func(seqs ...int64) []Entry {
		es := log("m0", "m1", "m2")
		for i, s := range seqs {
			es[i].Seq = s
		}
		return es
	}
	all := []Write{ack("m0", 0, 1, 2), ack("m1", 1, 3, 4), ack("m2", 2, 5, 6)}
	hole := log("m0", "m1", "m2")
	hole[2].Offset = 3
	for _, c := range []struct {
		want   string
		writes []Write
		ends   []End
		reads  []Entry
		log    []Entry
	}{
		{want: "lost: p m2", writes: all, log: log("m0", "m1")},
		{want: "lost: p m1", writes: append(all[:1:1], told(Duplicate, "m1", 1)), log: log("m0")},
		{want: "twice: p m1", writes: all[:2], log: log("m0", "m1", "m1")},
		{want: "phantom: p m2", writes: all[:2], log: log("m0", "m1", "m2")},
		{want: "elsewhere: p m1", writes: []Write{ack("m0", 0, 1, 2), ack("m1", 0, 3, 4)}, log: log("m0", "m1")},
		{want: "elsewhere: p m0", writes: []Write{ack("m0", 0, 1, 2), told(Duplicate, "m0", 1), ack("m1", 1, 3, 4)}, log: log("m0", "m1")},
		{want: "stored twice: 2 attempts of p m0", writes: []Write{ack("m0", 0, 1, 2), ack("m0", 0, 3, 4)}, log: log("m0")},
		{want: "undead: every attempt of p m0", writes: []Write{told(Failed, "m0", 0)}, log: log("m0")},
		{want: "no original: p m0", writes: []Write{told(Duplicate, "m0", 0)}, log: log("m0")},
		// Its answer lost, the repeat is told where the late attempt is: behind what was known before.
		{want: "reorder: p m1", writes: []Write{ack("m0", 1, 1, 2), unknown("m1", 3), told(Duplicate, "m1", 0)}, log: log("m1", "m0")},
		{want: "last wins: p m0", writes: []Write{told(Duplicate, "m0", 0), told(Stored, "m0", 0)}, log: log("m0")},
		{want: "two names: p m0 is message A and message B", writes: []Write{
			named(ack("m0", 0, 1, 2), "A"), named(told(Duplicate, "m0", 0), "B"),
		}, log: log("m0")},
		{want: "one name: p m0 and p m1", writes: []Write{
			named(ack("m0", 0, 1, 2), "A"), named(ack("m1", 1, 3, 4), "A"),
		}, log: log("m0", "m1")},
		// Nothing else sees this one: it is a duplicate before anything was stored.
		{want: "no order: the answers about p m0", writes: []Write{
			{Client: "a", Partition: "p", ID: "m0", Seq: -1, Start: 1, End: 2, Outcome: Duplicate}, ack("m0", 0, 3, 4),
		}, log: log("m0")},
		{want: "gap: partition p has offset 3", writes: []Write{ack("m0", 0, 1, 2), ack("m1", 1, 3, 4), ack("m2", 3, 5, 6)}, log: hole},
		{want: "gap: partition p has offset 1", writes: []Write{ack("m0", 1, 1, 2)}, log: []Entry{{Offset: 1, ID: "m0", Client: "a", Seq: -1}}},
		{want: "reorder: p m1", writes: []Write{ack("m0", 1, 1, 2), ack("m1", 0, 3, 4)}, log: log("m1", "m0")},
		{want: "reorder: partition p has message 1", writes: all, log: seq(0, 2, 1)},
		{want: "reorder: partition p has message 2", writes: all, log: seq(0, 2, 2)},
		{want: "end went back: b", writes: all, log: log("m0", "m1", "m2"), ends: []End{{Client: "b", Partition: "p", Start: 7, End: 8, Offset: 2}}},
		{want: "end went back: b", writes: all, log: log("m0", "m1", "m2"), ends: []End{
			{Client: "a", Partition: "p", Start: 5, End: 6, Offset: 3}, {Client: "b", Partition: "p", Start: 7, End: 8, Offset: 2},
		}},
		{want: "end beyond the log", writes: all, log: log("m0", "m1", "m2"), ends: []End{{Client: "b", Partition: "p", Start: 7, End: 8, Offset: 4}}},
		{want: "skipped: reader r", writes: all, log: log("m0", "m1", "m2"), reads: []Entry{log("m0")[0], log("m0", "m1", "m2")[2]}},
		{want: "changed: reader r", writes: all, log: log("m0", "m1", "m2"), reads: []Entry{{Offset: 0, ID: "other", Client: "a", Seq: -1}}},
		{want: "changed: reader r", writes: all[:1], log: log("m0"), reads: log("m0", "m1")},
	} {
		h := NewHistory()
		for _, w := range c.writes {
			h.Write(w)
		}
		for _, e := range c.ends {
			h.End(e)
		}
		for _, e := range c.reads {
			h.Read("r", "p", e)
		}
		found := Check(h, map[string][]Entry{"p": c.log})
		if len(found) == 0 || !strings.HasPrefix(string(found[0]), c.want) {
			t.Errorf("want %q, found %q", c.want, found)
		}
	}
}

// The register, found by search, agrees with the rules: of each bad history of
// one id it finds no order, of each good one it finds one.
func TestRegister(t *testing.T) {
	t.Parallel()
	at := func(o Outcome, offset int64, start, end time.Duration) Write {
		return Write{Start: start, End: end, Outcome: o, Offset: offset}
	}
	for _, c := range []struct {
		name     string
		at       []int64
		attempts []Write
		good     bool
	}{
		{"stored, then a duplicate", []int64{4}, []Write{at(Stored, 4, 1, 2), at(Duplicate, 4, 3, 4)}, true},
		{"at once", []int64{4}, []Write{at(Duplicate, 4, 1, 5), at(Stored, 4, 4, 6)}, true},
		{"a duplicate of an unknown one", []int64{4}, []Write{at(Unknown, 0, 1, 2), at(Duplicate, 4, 3, 4)}, true},
		{"the unknown one was not stored", []int64{4}, []Write{at(Unknown, 0, 1, 2), at(Stored, 4, 3, 4)}, true},
		{"many unknown ones, none stored", nil, []Write{at(Unknown, 0, 1, 2), at(Unknown, 0, 3, 4)}, true},
		{"a duplicate before it is stored", []int64{4}, []Write{at(Duplicate, 4, 1, 2), at(Stored, 4, 3, 4)}, false},
		{"a duplicate before the unknown one", []int64{4}, []Write{at(Duplicate, 4, 1, 2), at(Unknown, 0, 3, 4)}, false},
		{"stored twice", []int64{4}, []Write{at(Stored, 4, 1, 2), at(Stored, 4, 3, 4)}, false},
		{"stored in two places", []int64{4, 5}, []Write{at(Stored, 4, 1, 2), at(Stored, 5, 1, 2)}, false},
		{"a duplicate of something else", []int64{4}, []Write{at(Stored, 4, 1, 2), at(Duplicate, 3, 3, 4)}, false},
	} {
		ch := &checker{}
		ch.register([]*message{{partition: "p", id: c.name, attempts: c.attempts, at: c.at}})
		if good := len(ch.found) == 0; good != c.good {
			t.Errorf("%s: good is %t, want %t", c.name, good, c.good)
		}
	}
}
