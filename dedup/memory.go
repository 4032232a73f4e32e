package dedup

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unsafe"
)

// memory is what is known about one partition: a pure value, without lock and
// clock. Oldest first, its ids lie in
//
//	filters   large runs of ids, a few bytes each      (filter.go)
//	blocks    sorted, immutable, larger the older       (block.go)
//	hot       in order of arrival
//	sieve     knows which ids are neither in blocks nor in hot   (sieve.go)
//
// # The invariant
//
// memory knows every hash stored at an offset in (from, verified], and nothing
// at or below from lies in the window. What it knows may be too much, never too
// little: a hash that memory does not find is stored nowhere at or below
// verified, as far as the window reaches. Since the window moves by a clock that may be
// put back, that is true while it begins at lost or later.
//
// Only the functions from born to expire move verified or from, and this is why they may:
//
//   - born: an empty partition, or a reading that is about to begin.
//   - commit: one more row, whose first offset is verified+1. Offsets are given
//     out without gaps under the partition's row lock, so nothing lies between;
//     the hashes are added before verified moves.
//   - read: the same for a row of a snapshot of everything above verified. Only
//     rows older than the window (plus slack) are left out of it, and they lie
//     before all others, so a first row may leave a hole: what is in the hole is
//     older than the window, and so is everything before it; age only grows.
//   - readAll: verified is the end of the newest row of that snapshot. Had it been
//     in the window, it would have been read; so nothing up to it is.
//   - expire: drops whole blocks from the front whose newest id is older than a
//     bound that is never later than the window's start by the database's clock, and raises
//     lost beyond it. Creation times do not fall within a partition, so all before is older too.
type memory struct {
	from, verified int64
	told           int64 // at or below it everything was read, not committed by us
	window         int64 // nanoseconds

	filters []*filter
	blocks  []*block
	hot     hot
	sieve   *sieve // nil: there are few, or bytes count
	planes  uint8  // of filters, fewer under pressure

	ids  int64 // kept
	size int64 // bytes of filters, blocks and sieve

	// Nothing that was created at lost (Unix nanoseconds) or later was forgotten or left
	// out: the invariant holds while the window begins there or later, which a clock that
	// is put back may end. hole says that a reading under way leaves something out, so far of
	// an age nobody told.
	lost int64
	hole bool

	// The database's clock was at least clock when ours showed at.
	clock int64
	at    time.Time
}

// outcome says what a commit was to memory.
type outcome int

const (
	followed   outcome = iota // taken in
	known                     // part of what was read already
	gap                       // something before it is missing
	impossible                // contradicts what is known
)

// born is a memory of what a whole-window snapshot with no rows (yet) says:
// nothing at or below verified lies in the window.
func born(verified int64, window time.Duration) *memory {
	return &memory{from: verified, verified: verified, told: verified, window: int64(window), planes: planesMax}
}

// commit takes in an append that this process committed. hashes is empty when
// all ids were minted, else has one element per offset.
func (m *memory) commit(base, end int64, created int64, hashes []Hash) outcome {
	switch {
	case end <= m.told:
		return known
	case base > m.verified+1:
		return gap
	case base <= m.verified:
		return impossible
	}
	m.follow(base, end, created, hashes)
	return followed
}

// read takes in a row of a snapshot that was asked for all rows above an offset
// at or below verified, in order. first says that no row came before it: what
// the snapshot left out below it is older than the window.
func (m *memory) read(base, end int64, created int64, hashes []Hash, first bool) outcome {
	switch {
	case end <= m.verified:
		m.told = max(m.told, end)
		return known
	case base > m.verified+1 && !first:
		return gap
	case base <= m.verified:
		return impossible
	}
	if base > m.verified+1 {
		m.from, m.verified, m.hole = base-1, base-1, true
	}
	m.follow(base, end, created, hashes)
	m.told = end
	return followed
}

// readAll ends a stream of reads: the snapshot's newest row ends at verified, and what
// was left out, above the last one read or before the first, is older than since.
func (m *memory) readAll(verified, since int64) {
	if verified > m.verified { // no row was left in the window
		m.from, m.verified, m.hole = verified, verified, true
	}
	if m.hole {
		m.lost, m.hole = max(m.lost, since), false
	}
	m.told = max(m.told, verified)
}

func (m *memory) follow(base, end int64, created int64, hashes []Hash) {
	if len(hashes) != 0 && int64(len(hashes)) != end-base+1 {
		panic(fmt.Sprintf("BUG: %d hashes for offsets %d to %d", len(hashes), base, end))
	}
	for i := range hashes {
		if !hashes[i].IsMinted() {
			m.add(hashes[i].key(), base+int64(i), created)
		}
	}
	m.verified = end
}

// expire forgets whole blocks, filters and the hot buffer where all is older
// than bound, and says whether it forgot anything.
func (m *memory) expire(bound int64) bool {
	before := m.ids
	for len(m.filters) > 0 && m.filters[0].newest < bound {
		f := m.filters[0]
		m.forget(f.to, f.newest, f.ids, f.bytes())
		m.filters = dropFirst(m.filters)
	}
	for len(m.filters) == 0 && len(m.blocks) > 0 && m.blocks[0].newest < bound {
		b := m.blocks[0]
		m.forget(b.to, b.newest, int64(len(b.keys)), b.bytes())
		m.blocks = dropFirst(m.blocks)
	}
	if len(m.blocks) == 0 {
		m.dropSieve()
	}
	if len(m.filters)+len(m.blocks) == 0 && len(m.hot.keys) > 0 && m.hot.newest < bound {
		m.forget(m.hot.to, m.hot.newest, int64(len(m.hot.keys)), 0)
		m.hot = hot{}
	}
	return m.ids != before
}

func (m *memory) forget(to, newest, ids, bytes int64) {
	m.from, m.lost = max(m.from, to), max(m.lost, newest+1)
	m.ids -= ids
	m.size -= bytes
}

// bound is the latest creation time that is surely before the window at now.
// The database's clock is only ever guessed too early: what a commit or a
// snapshot showed, plus our own elapsed time less 1/64 for a fast clock here,
// less the slack for a clock set back there.
func (m *memory) bound(now time.Time, slack time.Duration) int64 {
	return m.dbClock(now) - m.window - int64(slack)
}

func (m *memory) dbClock(now time.Time) int64 {
	if m.at.IsZero() {
		return 0 // nothing was shown yet: nothing is surely old
	}
	elapsed := max(0, now.Sub(m.at))
	return m.clock + int64(elapsed-elapsed/64)
}

// saw notes that the database's clock is at least db.
func (m *memory) saw(db int64, now time.Time) {
	if m.at.IsZero() || db > m.dbClock(now) {
		m.clock, m.at = db, now
	}
}

// add keeps one id.
func (m *memory) add(k uint64, offset, created int64) {
	if n := len(m.hot.keys); n > 0 {
		// A block of a sparse partition must be able to expire, and one among many
		// minted ids must not make SQL read them all: both are sealed early.
		old := created-m.hot.oldest > m.window/blocksPerWindow
		wide := offset-m.hot.starts[0] >= blockSpanMax && n >= blockIDsMin
		if old || wide {
			m.seal()
		}
	}
	m.hot.add(k, offset, created)
	if m.sieve != nil {
		m.sieve.add(k)
		m.sieve.left--
	}
	m.ids++
	if len(m.hot.keys) == blockIDsMax {
		m.seal()
	}
}

const (
	blocksPerWindow = 8       // a window is cut into at least as many blocks, however few ids there are
	blockSpanMax    = 1 << 16 // offsets after which a block is sealed …
	blockIDsMin     = 256     // … if it has as many ids
)

func (m *memory) seal() {
	b := m.hot.seal()
	m.blocks = append(m.blocks, b)
	m.size += b.bytes()
}

// bytes is what a memory costs.
func (m *memory) bytes() int64 {
	return int64(unsafe.Sizeof(*m)) + m.size + m.hot.bytes()
}

// asOf is since when, by the database's clock in microseconds since 1970, the invariant
// holds: since the window has begun at lost. 0: always.
func (m *memory) asOf() int64 {
	if m.lost == 0 {
		return 0
	}
	return (m.lost + m.window + 999) / 1000
}

// width is how many offsets of the window are covered.
func (m *memory) width() int64 { return m.verified - m.from }

// hit is a key with a span that may hold it.
type hit struct {
	key uint64
	Span
}

// holders are keys with the spans that may hold them, by key.
type holders struct {
	keys []uint64
	at   []int32 // indexes of spans, as long
}

// of returns the spans that may hold a key.
func (h holders) of(key uint64) []int32 {
	from, _ := slices.BinarySearch(h.keys, key)
	to := from
	for to < len(h.keys) && h.keys[to] == key {
		to++
	}
	return h.at[from:to]
}

// find returns the spans that may hold one of the keys, apart and in order, and
// which of them may hold which. keys are the caller's to lose.
func (m *memory) find(keys []uint64) (spans []Span, held holders) {
	if len(keys) == 0 || m.ids == 0 {
		return nil, holders{}
	}
	var hits []hit
	for _, f := range m.filters {
		hits = f.find(keys, hits)
	}
	if m.sieve != nil {
		keys = m.sieve.pass(keys)
	}
	if len(keys) > 0 {
		hits = m.findSifted(keys, hits)
	}
	if len(hits) == 0 {
		return nil, holders{}
	}
	spans = make([]Span, len(hits))
	for i, h := range hits {
		spans[i] = h.Span
	}
	spans = mergeSpans(spans)
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.From, b.From)) })
	held = holders{make([]uint64, 0, len(hits)), make([]int32, 0, len(hits))}
	for i, h := range hits {
		at, starts := slices.BinarySearchFunc(spans, h.From, func(s Span, from int64) int { return cmp.Compare(s.From, from) })
		if !starts {
			at--
		}
		if i > 0 && h.key == hits[i-1].key && held.at[len(held.at)-1] == int32(at) {
			continue
		}
		held.keys, held.at = append(held.keys, h.key), append(held.at, int32(at))
	}
	return spans, held
}

// findSifted looks into blocks and buffer. The keys are sorted for it.
func (m *memory) findSifted(keys []uint64, hits []hit) []hit {
	slices.Sort(keys)
	for _, b := range m.blocks {
		hits = b.findAll(keys, hits)
	}
	return m.hot.find(keys, hits)
}

// mergeSpans sorts spans and joins those that overlap or touch.
func mergeSpans(s []Span) []Span {
	if len(s) < 2 {
		return s
	}
	slices.SortFunc(s, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	out := s[:1]
	for _, sp := range s[1:] {
		last := &out[len(out)-1]
		if sp.From <= last.To+1 {
			last.To = max(last.To, sp.To)
			continue
		}
		out = append(out, sp)
	}
	return out
}

// dropFirst removes the first element and lets go of it.
func dropFirst[T any](s []*T) []*T {
	s[0] = nil
	if s = s[1:]; len(s) == 0 {
		return nil
	}
	return s
}
