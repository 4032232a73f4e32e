package dedup

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// Hash is the identity of an explicit id: the 128-bit xxh3 of its bytes,
// unkeyed, high half first, both big-endian (xxh3's canonical form). It is
// stored, one per message, so it never changes.
//
// The zero Hash means "minted": a message without an explicit id. It equals no
// other, not even itself.
type Hash [16]byte

// Of is the hash of an explicit id. It is never the zero Hash: an id whose
// xxh3 happens to be 0 gets 1, which costs one collision in 2^128.
func Of(id []byte) Hash {
	return fromHalves(xxh3.Hash128(id))
}

func fromHalves(u xxh3.Uint128) (h Hash) {
	if u.Hi|u.Lo == 0 {
		u.Lo = 1
	}
	binary.BigEndian.PutUint64(h[:8], u.Hi)
	binary.BigEndian.PutUint64(h[8:], u.Lo)
	return h
}

// IsMinted reports whether h stands for a message without an explicit id.
func (h Hash) IsMinted() bool { return h == Hash{} }
