package queen

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// IDBase is the message id of the first offset of a run; the id of the i-th
// offset after it is the base plus i, so ids are computed and never stored per
// message. The layout is that of a UUIDv7:
//
//	Hi  48 bits milliseconds | 4 bits 0111 | 12 random bits
//	Lo  2 bits 10 | 1 bit 0 | 61 random bits
//
// The bit below the variant is 0 in every base, so Lo + i stays below
// 10·1·0…0 for every i up to 2^61: adding never reaches the variant, nor Hi.
// A run holds at most 2^31 offsets, far less.
//
// Hi and Lo are the two halves as PostgreSQL's bigint holds them, signed. The
// order is not harmed by that: every Lo, of a base or of an id, starts with the
// bits 10, so all of them are negative and two of them compare as signed
// numbers exactly as they do as unsigned ones. A range "Lo between base and
// base + count − 1" is therefore an ordinary bigint range. (Hi is positive
// until the year 6429, and only ever compared for equality.)
type IDBase struct{ Hi, Lo int64 }

const (
	idVersion     = 7
	idVariantBits = uint64(0b10) << 62
	idVariantMask = uint64(0b11) << 62
	idRandomMask  = uint64(1)<<61 - 1
	idTextLen     = 36
)

// NewIDBase mints a base nobody else has: 73 random bits per millisecond, from
// the operating system. It is safe for concurrent use.
func NewIDBase(now time.Time) IDBase {
	var r [10]byte
	rand.Read(r[:]) // never fails: crypto/rand ends the process rather than return an error
	ms := uint64(now.UnixMilli()) & (1<<48 - 1)
	hi := ms<<16 | idVersion<<12 | uint64(binary.BigEndian.Uint16(r[8:]))&0xfff
	lo := idVariantBits | binary.BigEndian.Uint64(r[:8])&idRandomMask
	return IDBase{Hi: int64(hi), Lo: int64(lo)}
}

// ID is the message id of the i-th offset after the base, 0 ≤ i < 2^31.
func (b IDBase) ID(i int64) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(b.Hi))
	binary.BigEndian.PutUint64(id[8:], uint64(b.Lo+i))
	return id
}

// valid reports whether b has the layout above.
func (b IDBase) valid() bool {
	return uint64(b.Hi)>>12&0xf == idVersion && uint64(b.Lo)&(idVariantMask|1<<61) == idVariantBits
}

// ParseID reads a message id from its canonical text, 36 lower-case characters
// of a UUIDv7, and nothing else: an id that a client merely wrote in another
// form was not minted by us, so it must not be matched against an id base.
func ParseID(text []byte) (hi, lo int64, ok bool) {
	if len(text) != idTextLen || text[14] != '0'+idVersion { // most ids are others
		return 0, 0, false
	}
	var halves [2]uint64
	digits := 0
	for i, c := range text {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return 0, 0, false
			}
			continue
		}
		var v byte
		switch {
		case '0' <= c && c <= '9':
			v = c - '0'
		case 'a' <= c && c <= 'f':
			v = c - 'a' + 10
		default:
			return 0, 0, false
		}
		halves[digits/16] = halves[digits/16]<<4 | uint64(v)
		digits++
	}
	if halves[0]>>12&0xf != idVersion || halves[1]&idVariantMask != idVariantBits {
		return 0, 0, false
	}
	return int64(halves[0]), int64(halves[1]), true
}
