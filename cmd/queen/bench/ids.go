package bench

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// IDKind names what the explicit ids of messages look like.
type IDKind string

// The kinds of ids. An index over random ones is written all over, an index over
// sequential ones at a few ends: to Queen, which hashes ids, both are the same.
const (
	UUIDs      IDKind = "uuid"       // as applications make them: random UUIDs (version 4)
	Sequential IDKind = "sequential" // each client counts
)

// appendID appends the text of a message's id: one text for each number.
func (k IDKind) appendID(b []byte, id uint64) []byte {
	if k == Sequential {
		return strconv.AppendUint(b, id, 16)
	}
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], mix(id))
	binary.BigEndian.PutUint64(raw[8:], mix(^id))
	raw[6] = raw[6]&0x0f | 0x40
	raw[8] = raw[8]&0x3f | 0x80
	for i, part := range [...][]byte{raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return b
}

// mix spreads numbers that follow each other over all of 64 bits, each to a
// different one (the finalizer of SplitMix64, by Steele, Lea and Flood).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
