package queen

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/s2"

	"queenmq/store"
)

// A batch whose records are not compressed lies packed in its row, where that
// makes it smaller: every byte PostgreSQL does not write is worth several that
// we pack. Its entry has flagPacked, and in the place of the batch is
//
//	u32 length of the block, big-endian | S2 block of the batch as served
//
// which stands for itself as the batch did. Only rows have packed batches:
// loadSegment unpacks, and nothing behind it knows.
const packedPrefixLen = 4

// packBytesMin is the size from which a batch is worth packing: below, it
// repeats too little of itself.
const packBytesMin = 2 << 10

// worthPacking says whether so many bytes are stored rather than those served.
func worthPacking(stored, served int) bool { return stored <= served-served/4 }

// What is looked at of a batch before it is packed, so that one that cannot be
// costs next to nothing: pieces of one KiB, which is what S2 estimates fast.
const (
	packSampleBytes = 1 << 10
	packSampleEvery = 16 << 10
	packSamplesMax  = 4
)

// looksPackable judges a batch of at least packBytesMin by pieces of it.
func looksPackable(b []byte) bool {
	if codec := int8(binary.BigEndian.Uint16(b[batchAtAttributes:]) & attrCodecMask); codec != codecNone {
		return false
	}
	n := min(1+len(b)/packSampleEvery, packSamplesMax)
	estimated := 0
	for i := range n {
		at := (2*i+1)*len(b)/(2*n) - packSampleBytes/2 // the middle of each n-th
		size := s2.EstimateBlockSize(b[at : at+packSampleBytes])
		if size < 0 {
			size = packSampleBytes
		}
		estimated += size
	}
	return estimated <= n*(packSampleBytes-packSampleBytes/8)
}

// packing turns a segment as served into what its row holds, batch by batch.
type packing struct {
	header []byte // the encoded one, which is changed
	marks  []batchMark
	data   []byte // as served
	at     int    // data up to here is done
	done   int    // marks
	out    []byte // what is stored of it, borrowed; nil: just the same
	buf    []byte // borrowed for as long as it is packed
}

// next packs the next batch, where that is worth it, and returns how many bytes
// of it are stored.
func (p *packing) next() int {
	length := int(p.marks[p.done].Length)
	b := p.data[p.at : p.at+length]
	p.at += length
	p.done++
	if length < packBytesMin || !looksPackable(b) {
		if p.out != nil {
			p.out = append(p.out, b...)
		}
		return length
	}
	if p.buf == nil {
		p.buf = store.Borrow(max(p.room(), packRoom))
	}
	before := len(p.out)
	if p.out == nil {
		before = p.at - length
	}
	block := s2.Encode(p.buf[before+packedPrefixLen:cap(p.buf)], b)
	stored := packedPrefixLen + len(block)
	if !worthPacking(stored, length) {
		if p.out != nil {
			p.out = append(p.out, b...)
		}
		return length
	}
	if p.out == nil {
		p.out = append(p.buf[:0], p.data[:before]...)
	}
	p.out = binary.BigEndian.AppendUint32(p.out, uint32(len(block)))
	p.out = p.out[:before+stored]
	flags := len(p.header) - (len(p.marks)-p.done+1)*batchMarkLen + batchMarkAtFlags
	p.header[flags+1] |= byte(flagPacked)
	return stored
}

// packBufferMin is what is borrowed at least: less would not be taken back. Where
// it is packed, always as much as a large segment needs: few are packed at a time,
// and buffers of every size would lie about.
const (
	packBufferMin = 32 << 10
	packRoom      = 1<<20 + 64<<10
)

// room is enough for all that is stored and the largest block at its end.
func (p *packing) room() int {
	extra := 0
	for i := range p.marks {
		n := int(p.marks[i].Length)
		extra = max(extra, packedPrefixLen+s2.MaxEncodedLen(n)-n)
	}
	return len(p.data) + extra
}

// stored is the data of the row, once all batches are done. It takes no more memory
// than it needs: a flight keeps it for the time of its call.
func (p *packing) stored() []byte {
	if p.out != nil {
		p.out = append(store.Borrow(max(len(p.out), packBufferMin)), p.out...)
	}
	store.Recycle(p.buf)
	p.buf = nil
	if p.out == nil {
		return p.data
	}
	return p.out
}

// release takes back the memory of what is stored; it must not be looked at any more.
func (p *packing) release() {
	store.Recycle(p.out)
	p.out = nil
}

// pack packs all of a segment.
func pack(h segmentHeader, data []byte) (header, stored []byte) {
	p := packing{header: h.AppendTo(nil), marks: h.Marks, data: data}
	for range h.Marks {
		p.next()
	}
	return p.header, p.stored()
}

// unpackedBytesMax bounds a segment as served: one batch at most, or less than that.
// What is stored cannot make us take more memory than this.
const unpackedBytesMax = 2 * MessageBytesMax

// unpack returns the data as served, and takes the flag off the entries. Where
// nothing is packed it is the data given.
func (h *segmentHeader) unpack(data []byte) ([]byte, error) {
	served, packed := int64(0), false
	for rest, i := data, 0; i < len(h.Marks); i++ {
		m := &h.Marks[i]
		stored := int64(m.Length)
		if m.Flags&flagPacked != 0 {
			packed = true
			block, err := packedBlock(rest, i)
			if err != nil {
				return nil, err
			}
			if n, err := s2.DecodedLen(block); err != nil || int64(n) != int64(m.Length) || n < batchHeaderLen {
				return nil, fmt.Errorf("packed batch %d says it has %d bytes, its entry %d", i, n, m.Length)
			}
			stored = packedPrefixLen + int64(len(block))
		}
		if stored > int64(len(rest)) {
			return nil, fmt.Errorf("batch %d of %d bytes, %d are left", i, stored, len(rest))
		}
		rest = rest[stored:]
		served += int64(m.Length)
	}
	switch {
	case !packed:
		return data, nil
	case served > unpackedBytesMax:
		return nil, fmt.Errorf("batches of %d bytes, %d are allowed", served, unpackedBytesMax)
	}
	out := store.Borrow(int(served))
	for i := range h.Marks {
		m := &h.Marks[i]
		n, length := len(out), int(m.Length)
		if m.Flags&flagPacked == 0 {
			out, data = append(out, data[:length]...), data[length:]
			continue
		}
		block, err := packedBlock(data, i)
		if err != nil {
			return nil, err
		}
		b, err := s2.Decode(out[n:n+length:n+length], block)
		if err != nil {
			return nil, fmt.Errorf("packed batch %d: %w", i, err)
		}
		// The block has no checksum of its own; the batch has.
		if want := binary.BigEndian.Uint32(b[batchAtCRC:]); crc32.Checksum(b[batchAtAttributes:], castagnoli) != want {
			return nil, fmt.Errorf("packed batch %d does not match its CRC", i)
		}
		out, data = out[:n+length], data[packedPrefixLen+len(block):]
		m.Flags &^= flagPacked
	}
	return append(out, data...), nil // what is left over is refused as in any segment
}

// packedBlock is the block of the packed batch that src begins with.
func packedBlock(src []byte, i int) ([]byte, error) {
	if len(src) < packedPrefixLen {
		return nil, fmt.Errorf("packed batch %d in %d bytes", i, len(src))
	}
	n := binary.BigEndian.Uint32(src)
	src = src[packedPrefixLen:]
	if int64(n) > int64(len(src)) {
		return nil, fmt.Errorf("packed batch %d of %d bytes, %d are left", i, n, len(src))
	}
	return src[:n], nil
}
