package queen

import "hash/maphash"

// latestKeys knows the last offset of every key it was shown: the map a compaction
// is made by. A key is kept as 128 bits of hashes seeded by this process, so
// nobody can choose two keys that are one here. It is owned by one goroutine.
type latestKeys struct {
	max   int // keys, some 60 bytes each
	seeds [2]maphash.Seed
	last  map[[2]uint64]int64
}

func newLatestKeys(max int) *latestKeys {
	return &latestKeys{
		max: max, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, last: map[[2]uint64]int64{},
	}
}

func (l *latestKeys) hash(key []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(l.seeds[0], key), maphash.Bytes(l.seeds[1], key)}
}

// see notes that a key occurs at an offset. Offsets come in ascending order.
func (l *latestKeys) see(key []byte, offset int64) { l.last[l.hash(key)] = offset }

// full says that what follows is to be left for another map.
func (l *latestKeys) full() bool { return len(l.last) >= l.max }

// superseded says whether the key occurs after the offset.
func (l *latestKeys) superseded(key []byte, offset int64) bool {
	last, ok := l.last[l.hash(key)]
	return ok && last > offset
}
