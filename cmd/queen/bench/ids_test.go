package bench

import (
	"testing"

	"github.com/google/uuid"
)

func TestEveryNumberHasAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, kind := range []IDKind{UUIDs, Sequential} {
		seen := make(map[string]bool)
		for client := range 3 {
			for n := range uint64(1000) {
				id := string(kind.appendID(nil, idOf(client, n)))
				if seen[id] {
					t.Fatalf("%s: %s is the id of two messages", kind, id)
				}
				seen[id] = true
				if u, err := uuid.Parse(id); kind == UUIDs && (err != nil || u.Version() != 4 || u.Variant() != uuid.RFC4122) {
					t.Fatalf("%s is no random UUID: %v", id, err)
				}
			}
		}
	}
}

// Ids of messages that follow each other lie far apart in an index.
func TestUUIDsAreInNoOrder(t *testing.T) {
	t.Parallel()
	up := 0
	before := ""
	for n := range uint64(1000) {
		id := string(UUIDs.appendID(nil, n))
		if id > before {
			up++
		}
		before = id
	}
	if up < 400 || up > 600 {
		t.Errorf("%d of 1000 ids are greater than the one before, want about half", up)
	}
}
