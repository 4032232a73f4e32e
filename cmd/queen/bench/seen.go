package bench

// An id holds the client in the bits above this, and its running number below.
const clientShift = 40

func idOf(client int, n uint64) uint64 { return uint64(client)<<clientShift | n }

// seen remembers which of the acknowledged ids were read back: a bit each.
type seen struct {
	next []uint64   // per client: the number after its last
	bits [][]uint64 // per client
}

func newSeen(next []uint64) *seen {
	s := &seen{next: next, bits: make([][]uint64, len(next))}
	for i, n := range next {
		s.bits[i] = make([]uint64, (n+63)/64)
	}
	return s
}

// count adds one value that was read back, or the reason it is none.
func (s *seen) count(v *Verified, id uint64, err error) {
	v.Read++
	client, n := id>>clientShift, id&(1<<clientShift-1)
	if err != nil || client >= uint64(len(s.next)) || n >= s.next[client] {
		v.Damaged++
		return
	}
	word, bit := n/64, uint64(1)<<(n%64)
	if s.bits[client][word]&bit != 0 {
		v.Repeated++
		return
	}
	s.bits[client][word] |= bit
}

// finish counts what was acknowledged and never read back.
func (s *seen) finish(v *Verified) {
	for client, next := range s.next {
		v.Acknowledged += int64(next)
		for n := range next {
			if s.bits[client][n/64]&(1<<(n%64)) == 0 {
				v.Missing++
			}
		}
	}
}
