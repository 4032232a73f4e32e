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
		if l, fo := f.Lead(queue, partition, id, i); l != leader || fo != follows {
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
		if leader, follows := f.Lead(k[0], k[1], []byte(k[2]), i); follows {
			t.Errorf("%q follows number %d", k, leader)
		}
	}
}

func TestFirstsKeepsNoReferenceToTheID(t *testing.T) {
	t.Parallel()
	var f Firsts
	id := []byte("abc")
	f.Lead("q", "p", id, 0)
	id[0] = 'x'
	if _, follows := f.Lead("q", "p", []byte("abc"), 1); !follows {
		t.Error("the id changed with the caller's buffer")
	}
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
	f.Lead("queue", "partition", id, 0)
	if n := testing.AllocsPerRun(100, func() {
		if _, follows := f.Lead("queue", "partition", id, 1); !follows {
			t.Fatal("no follower")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
