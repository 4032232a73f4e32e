package queen

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
)

// TestLeasesAreBoundByTheBytesOfTheirIDs: an id may be as long as IDBytesMax.
func TestLeasesAreBoundByTheBytesOfTheirIDs(t *testing.T) {
	t.Parallel()
	l := newLeases()
	id := bytes.Repeat([]byte("i"), IDBytesMax)
	var all []uuid.UUID
	for i := range 2 * leaseBytesMax / IDBytesMax {
		all = append(all, uuid.New())
		l.keep(leaseKey{all[i], 1}, []StoredMessage{{TransactionID: id, Offset: int64(i)}})
	}
	held := 0
	for i, lease := range all {
		o, ok, _ := l.offset(leaseKey{lease, 1}, id)
		if ok && o != int64(i) {
			t.Fatalf("lease %d: offset %d", i, o)
		}
		if ok {
			held++
		}
	}
	if most := leaseBytesMax / IDBytesMax; held > most || held < most*9/10 {
		t.Errorf("%d ids of %d bytes are kept, want at most %d and about as many", held, len(id), most)
	}
	if _, ok, _ := l.offset(leaseKey{all[len(all)-1], 1}, id); !ok {
		t.Error("the newest lease is forgotten")
	}
}
