// Package dedup is the engine's memory of ids: it narrows the search for
// duplicates and never calls anything a duplicate by itself.
//
// A push climbs three rungs. Firsts folds an id repeated inside one request,
// SegmentFirsts a hash repeated inside one flush, and PostgreSQL, the only
// authority, looks for the rest under the partition's row lock. Cache tells the
// third rung where it need not look.
//
// The one invariant of Cache: within the window, no hash of the question occurs
// at or below Verified outside Suspects. Verified −1 is always true, so anything
// may be forgotten at any time; the proof is above memory in memory.go.
//
//	hash.go       what an id is: Hash, Of
//	batch.go      Firsts, SegmentFirsts
//	cache.go      Cache, Ask, Committed; its goroutines and locks; config.go: every bound
//	entry.go      one partition's place in the cache, and what it costs
//	memory.go     memory: one partition's ids, the gap rule, expiry, the proof
//	block.go      ids, sorted and indexed; hot.go: the newest, in order of arrival
//	filter.go filter_build.go   many ids at a few bytes each
//	sieve.go      what lets new ids pass by blocks
//	merge.go      blocks become larger ones, and filters, in the background
//	source.go     Source: how a window is read back
//	reading.go    births and catching up
//	admission.go  who gets an entry
//	budget.go     who loses one; sweeping
//	notes.go      what is remembered about those without
//	metrics.go    Stats
package dedup
