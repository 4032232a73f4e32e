package bench

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"
)

// PayloadKind names what values are made of.
type PayloadKind string

// The kinds of values. None repeats one character: a database, a file system or
// a codec would make such a load far too cheap.
const (
	Random PayloadKind = "random" // random bytes
	JSON   PayloadKind = "json"   // orders of a shop, as JSON objects
	Text   PayloadKind = "text"   // a JSON string of random base64 characters: Random for HTTP
)

const (
	// poolBytes is how much of a load is different before it repeats: more than
	// any codec's window, little enough to stay out of the way.
	poolBytes = 8 << 20
	// ValueBytesMin and ValueBytesMax bound the size of one value.
	ValueBytesMin = 64
	ValueBytesMax = 1 << 20
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errDamaged = errors.New("checksum does not match")
	errForeign = errors.New("not a value of this load")
)

// Payload makes values of one size. Every value carries an id and a checksum of
// all its other bytes. Immutable, so clients share it.
type Payload struct {
	kind   PayloadKind
	size   int
	bodies []byte // one body after the other
	n      int
}

// layouts of the stamp: where the id and the checksum are, in hex digits for
// the two kinds that must stay JSON.
const (
	jsonIDAt  = len(`{"id":"`)
	jsonSumAt = jsonIDAt + 16 + len(`","check":"`)
	jsonRest  = jsonSumAt + 8
)

// NewPayload makes the bodies once; the same seed makes the same ones.
func NewPayload(kind PayloadKind, size int, seed uint64) (*Payload, error) {
	if size < ValueBytesMin || size > ValueBytesMax {
		return nil, fmt.Errorf("size of a value is %d, must be %d to %d bytes", size, ValueBytesMin, ValueBytesMax)
	}
	p := &Payload{kind: kind, size: size, n: poolBytes / size}
	p.bodies = make([]byte, p.n*size)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	source := rand.NewChaCha8(key)
	switch kind {
	case Random:
		_, _ = source.Read(p.bodies) // never fails
	case Text:
		raw := make([]byte, base64.RawStdEncoding.DecodedLen(len(p.bodies))+3)
		_, _ = source.Read(raw)
		copy(p.bodies, base64.RawStdEncoding.EncodeToString(raw))
		for i := range p.n {
			body := p.body(i)
			body[0], body[size-1] = '"', '"'
		}
	case JSON:
		r := rand.New(source)
		for i := range p.n {
			writeOrder(p.body(i), r)
		}
	default:
		return nil, fmt.Errorf("payload %q is not one of %s, %s", kind, Random, JSON)
	}
	return p, nil
}

func (p *Payload) body(i int) []byte { return p.bodies[i*p.size : (i+1)*p.size : (i+1)*p.size] }

// Size is the length of every value.
func (p *Payload) Size() int { return p.size }

// Fill makes the value of an id in dst, which has Size bytes.
func (p *Payload) Fill(dst []byte, id uint64) {
	copy(dst, p.body(int(id%uint64(p.n))))
	p.stamp(dst, id)
}

// FillRow makes a row of any length out of as many bodies as fit, and stamps it.
func (p *Payload) FillRow(dst []byte, id uint64) {
	// Rows start at different bodies, and together go through all of them.
	at := int(id * uint64(max(1, len(dst)/p.size)) % uint64(p.n))
	for n := copy(dst, p.bodies[at*p.size:]); n < len(dst); {
		n += copy(dst[n:], p.bodies)
	}
	stampBinary(dst, id)
}

func (p *Payload) stamp(dst []byte, id uint64) {
	if p.kind == Random {
		stampBinary(dst, id)
		return
	}
	idAt, sumAt, rest := p.places()
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], id)
	hex.Encode(dst[idAt:], b[:])
	sum := crc32.Update(crc32.Update(0, castagnoli, dst[idAt:idAt+16]), castagnoli, dst[rest:])
	binary.BigEndian.PutUint32(b[:4], sum)
	hex.Encode(dst[sumAt:], b[:4])
}

func (p *Payload) places() (idAt, sumAt, rest int) {
	if p.kind == Text {
		return 1, 17, 25
	}
	return jsonIDAt, jsonSumAt, jsonRest
}

// Check returns the id of a value, or why it is none of ours or damaged.
func (p *Payload) Check(v []byte) (id uint64, err error) {
	if len(v) != p.size {
		return 0, fmt.Errorf("%w: it has %d bytes, not %d", errForeign, len(v), p.size)
	}
	if p.kind == Random {
		return checkBinary(v)
	}
	idAt, sumAt, rest := p.places()
	var b [12]byte
	if _, err := hex.Decode(b[:8], v[idAt:idAt+16]); err != nil {
		return 0, fmt.Errorf("%w: %w", errForeign, err)
	}
	if _, err := hex.Decode(b[8:], v[sumAt:sumAt+8]); err != nil {
		return 0, fmt.Errorf("%w: %w", errForeign, err)
	}
	id = binary.BigEndian.Uint64(b[:8])
	sum := crc32.Update(crc32.Update(0, castagnoli, v[idAt:idAt+16]), castagnoli, v[rest:])
	if sum != binary.BigEndian.Uint32(b[8:]) {
		return id, fmt.Errorf("value %016x: %w", id, errDamaged)
	}
	return id, nil
}

// stampBinary writes id, checksum, and leaves the rest.
func stampBinary(dst []byte, id uint64) {
	binary.BigEndian.PutUint64(dst, id)
	binary.BigEndian.PutUint32(dst[8:], sumBinary(dst))
}

func checkBinary(v []byte) (uint64, error) {
	if len(v) < 12 {
		return 0, errForeign
	}
	id := binary.BigEndian.Uint64(v)
	if sumBinary(v) != binary.BigEndian.Uint32(v[8:]) {
		return id, fmt.Errorf("value %016x: %w", id, errDamaged)
	}
	return id, nil
}

func sumBinary(v []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, v[:8]), castagnoli, v[12:])
}

var (
	cities = []string{"Lisbon", "Osaka", "Nairobi", "Quito", "Tallinn", "Adelaide", "Winnipeg", "Pune", "Gdańsk", "Leipzig"}
	states = []string{"created", "paid", "packed", "shipped", "delivered", "returned"}
	goods  = []string{"kettle", "lamp", "notebook", "bicycle pump", "raincoat", "headphones", "desk", "water filter", "tent", "keyboard"}
	words  = []string{
		"please", "leave", "at", "the", "back", "door", "and", "ring", "twice", "gift", "wrap", "without", "invoice",
		"call", "before", "noon", "fragile", "second", "floor", "neighbour", "accepts", "parcel", "thank", "you", "again",
		"colour", "as", "in", "picture", "size", "exchange", "possible", "until", "friday",
	}
)

// writeOrder fills dst with one JSON object: the stamp, the fields that fit, and
// a note that takes what is left.
func writeOrder(dst []byte, r *rand.Rand) {
	const tail = `","note":"`
	var b bytes.Buffer
	b.WriteString(`{"id":"0000000000000000","check":"00000000`)
	field := func(format string, args ...any) {
		f := fmt.Sprintf(format, args...)
		if b.Len()+len(f)+len(tail)+2 <= len(dst) {
			b.WriteString(f)
		}
	}
	when := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(int64(365 * 24 * time.Hour))))
	field(`","state":"%s`, states[r.IntN(len(states))])
	field(`","createdAt":"%s`, when.Format(time.RFC3339Nano))
	field(`","customer":"%08x-%04x","city":"%s`, r.Uint32(), r.IntN(1<<16), cities[r.IntN(len(cities))])
	field(`","session":"%016x%016x`, r.Uint64(), r.Uint64())
	for i := range 1 + r.IntN(5) {
		field(`","item%d":{"sku":"%06d","name":"%s","quantity":%d,"price":%d.%02d},"state%d":"%s`, i, r.IntN(1e6),
			goods[r.IntN(len(goods))], 1+r.IntN(9), r.IntN(500), r.IntN(100), i, states[r.IntN(len(states))])
	}
	b.WriteString(tail)
	for b.Len() < len(dst) {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	copy(dst, b.Bytes())
	copy(dst[len(dst)-2:], `"}`)
}
