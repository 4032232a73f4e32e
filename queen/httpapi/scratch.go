package httpapi

import (
	"sync"

	"queenmq/queen"
)

// scratch is the memory of a push: what its body says, its items, and its answer.
// A push of a hundred small messages takes some 90 KB of it, which the next one
// uses again: most of what this door would allocate otherwise.
type scratch struct {
	body, answer []byte
	msgs         []queen.Message // parts of the body
}

// What is larger is left to the collector, so that one large push is not kept for small ones.
const (
	scratchBytesMax = 1 << 20
	scratchItemsMax = 4096
)

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// memory is the exchange's, for as long as it lasts.
func (x *exchange) memory() *scratch {
	if x.scratch == nil {
		x.scratch = scratches.Get().(*scratch)
	}
	return x.scratch
}

// giveBack leaves it to others once the answer is written, unless somebody may still
// read it: the engine goes on with messages whose request ended first.
func (x *exchange) giveBack() {
	m := x.scratch
	if m == nil || !x.unread || cap(m.body) > scratchBytesMax || cap(m.answer) > scratchBytesMax || cap(m.msgs) > scratchItemsMax {
		return
	}
	x.scratch = nil
	clear(m.msgs) // they point at strings of their own
	scratches.Put(m)
}
