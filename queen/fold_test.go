package queen

import (
	"testing"

	"queenmq/dedup"
)

// An id repeated in another push of a segment follows the first one's message, and no
// longer where the two go apart again.
func TestRepeatsFollowWithinTheirSegmentOnly(t *testing.T) {
	t.Parallel()
	of := func(apart bool, ids ...byte) *entry {
		e := &entry{apart: apart}
		for _, id := range ids {
			e.items = append(e.items, &pushItem{hash: dedup.Hash{id}})
		}
		return e
	}
	first, second, batch := of(true, 1, 2), of(true, 3, 1), &entry{batch: []byte("a batch of records")}
	foldRepeats([]*entry{first, batch, second})
	if l := second.items[1].leader; l != first.items[0] {
		t.Errorf("a repeat in another push follows %v", l)
	}
	foldRepeats([]*entry{batch, second})
	if l := second.items[1].leader; l != nil {
		t.Errorf("alone it still follows %v", l)
	}
	twice := of(false, 1, 1)
	foldRepeats([]*entry{twice})
	if l := twice.items[1].leader; l != twice.items[0] {
		t.Errorf("another id of the same hash, in one push, follows %v", l)
	}
}
