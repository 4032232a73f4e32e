package dedup

import (
	"testing"

	"pgregory.net/rapid"
)

func TestFirstOfEqualIDsLeadsTheRequest(t *testing.T) {
	t.Parallel()
	var f Firsts
	lead := func(i int, queue, partition string, id []byte, leader int, follows bool) {
		t.Helper()
		if l, fo := f.Lead(queue, partition, id, hashOf(id), i); l != leader || fo != follows {
			t.Errorf("%d: leader %d, follows %v; want %d, %v", i, l, fo, leader, follows)
		}
	}
	lead(0, "q", "p", []byte("a"), 0, false)
	lead(1, "q", "p", []byte("b"), 1, false)
	lead(2, "q", "p", []byte("a"), 0, true)
	lead(3, "q", "p", []byte("a"), 0, true) // the leader, not the follower before
	lead(4, "q", "other", []byte("a"), 4, false)
	lead(5, "other", "p", []byte("a"), 5, false)
	lead(6, "q", "p", nil, 6, false)
	lead(7, "q", "p", nil, 7, false)
	lead(8, "q", "p", []byte("A"), 8, false)
}

func TestFieldsOfAnIDAreComparedApart(t *testing.T) {
	t.Parallel()
	var f Firsts
	for i, k := range [][3]string{
		{"a", "b", "c"},
		{"ab", "", "c"},
		{"", "ab", "c"},
		{"a", "", "bc"},
		{"", "a", "bc"},
		{"a/b", "", "c"},
		{"a", "/b", "c"},
		{"a\x00b", "", "c"},
		{"a", "\x00b", "c"},
		{"a", "b\x00c", "\x00"},
		{"a", "b", "\x00c\x00"},
	} {
		if leader, follows := f.Lead(k[0], k[1], []byte(k[2]), Of([]byte(k[2])), i); follows {
			t.Errorf("%q follows number %d", k, leader)
		}
	}
}

// hashOf is the zero hash for a message without an id.
func hashOf(id []byte) (h Hash) {
	if id != nil {
		h = Of(id)
	}
	return h
}

// Two ids of one hash are two messages of a request; each leads its own kind.
func TestIDsOfOneHashAreComparedByTheirBytes(t *testing.T) {
	t.Parallel()
	var f Firsts
	for round := range 2 {
		for i, c := range []struct {
			id      string
			leader  int
			follows bool
		}{{"a", 0, false}, {"b", 1, false}, {"a", 0, true}, {"b", 1, true}, {"c", 4, false}, {"b", 1, true}, {"c", 4, true}} {
			if l, follows := f.Lead("q", "p", []byte(c.id), Hash{1}, i); l != c.leader || follows != c.follows {
				t.Errorf("round %d, %d: leader %d, follows %v; want %d, %v", round, i, l, follows, c.leader, c.follows)
			}
			if apart := i == 0; f.Apart() != apart {
				t.Errorf("round %d, %d: apart is %v", round, i, f.Apart())
			}
		}
		if l, follows := f.Lead("q", "other", []byte("b"), Hash{1}, 9); l != 9 || follows {
			t.Errorf("leader %d, follows %v in another partition", l, follows)
		}
		f.Reset()
	}
}

// Against a map of the three fields, with ids that share hashes, as a table is used
// again from request to request.
func TestFirstsAgreeWithTheFieldsThemselves(t *testing.T) {
	t.Parallel()
	var f Firsts
	rapid.Check(t, func(t *rapid.T) {
		f.Reset()
		name := rapid.SampledFrom([]string{"", "a", "b", "ab"})
		first := map[[3]string]int{} // the model
		for i := range rapid.IntRange(0, 30).Draw(t, "messages") {
			k := [3]string{name.Draw(t, "queue"), name.Draw(t, "partition"), name.Draw(t, "id")}
			leader, follows := f.Lead(k[0], k[1], []byte(k[2]), Hash{byte(len(k[2]))}, i)
			want, known := first[k]
			if !known {
				want, first[k] = i, i
			}
			if leader != want || follows != known {
				t.Fatalf("%d (%q): leader %d, follows %v; want %d, %v", i, k, leader, follows, want, known)
			}
		}
	})
}

func TestFirstOfEqualHashesLeadsTheSegment(t *testing.T) {
	t.Parallel()
	var f SegmentFirsts
	rapid.Check(t, func(t *rapid.T) {
		f.Reset()
		first := map[string]int{} // the model
		for i, id := range rapid.SliceOf(rapid.SampledFrom([]string{"", "a", "b", "c", "d"})).Draw(t, "ids") {
			var h Hash
			if id != "" {
				h = Of([]byte(id))
			}
			leader, follows := f.Lead(h, i)
			want, known := first[id]
			if id == "" || !known {
				want, known = i, false
				first[id] = i
			}
			if leader != want || follows != known {
				t.Fatalf("%d (%q): leader %d, follows %v; want %d, %v", i, id, leader, follows, want, known)
			}
		}
	})
}

// Not parallel: AllocsPerRun counts the whole process.
func TestLookingUpAFollowerDoesNotAllocate(t *testing.T) {
	var f Firsts
	id := make([]byte, 100)
	f.Lead("queue", "partition", id, Of(id), 0)
	if n := testing.AllocsPerRun(100, func() {
		if _, follows := f.Lead("queue", "partition", id, Of(id), 1); !follows {
			t.Fatal("no follower")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
