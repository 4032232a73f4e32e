package dedup

import (
	"context"
	"slices"
)

// Merging. A look into each of very many blocks of 4096 ids would take long, so
// they are put together:
//
//	4 blocks of a level ──► one of the next: sorted, indexed, exact; 8 bytes per id
//	the oldest blocks ────► filter: 2 to 4 bytes per id, and finds some in vain
//	all blocks ───────────► sieve: 1 to 2 bytes per id, beside them
//
// Filters are made only where bytes count (half of the budget is used) or
// look-ups would touch too many blocks. A filter or a block covers a part of
// the partition's ids, so that what expires last with it is a part of the whole.
const (
	filterIDsMin = 16 * blockIDsMax
	// A filter grows to this part of a partition: while memory is plenty to a
	// larger one, because a look-up asks every filter.
	filtersPerAll   = 16
	filtersPerAllIf = 4 // while the budget is used to a half at most
	// A block does to half of the partition, and never beyond this, nor so that making
	// a filter of it takes a large part of the budget.
	mergedIDsMax    = 1 << 20
	mergedPerBudget = 512 // bytes of the budget per id of a block
	// plentyBlocks is how many blocks a partition keeps while memory is plenty.
	// Each costs a look-up about what a filter does.
	plentyBlocks = 24
	mergesQueued = 1024
)

// plan is what to make next of consecutive blocks of a memory: the oldest of
// them for a filter, all for a sieve.
type plan struct {
	kind   planKind
	blocks []*block
	ids    int64
	planes int
}

type planKind uint8

const (
	toBlock planKind = iota
	toFilter
	toSieve
)

// merged is what became of a plan's blocks: one of these.
type merged struct {
	filter *filter
	block  *block
	sieve  *sieve
}

// dense says that bytes count: what can be under filters should be.
func (c *Cache) dense() bool { return c.bytes.Load() > c.cfg.BytesMax/2 }

// sifts says that there is room for first sieves. Between this and dense there are no more and no fewer of them.
func (c *Cache) sifts() bool { return c.bytes.Load() <= c.cfg.BytesMax/8*3 }

// target is how many ids the next filter of a memory should cover.
func (m *memory) target(filters int64, filterIDsMax int) int64 {
	target := int64(filterIDsMin)
	for 2*target <= min(m.ids/filters, int64(filterIDsMax)) {
		target *= 2
	}
	return target
}

// plan is the next merge of a memory, if there is one to make.
func (c *Cache) plan(m *memory) (plan, bool) {
	if c.dense() {
		return m.next(m.target(filtersPerAll, c.cfg.FilterIDsMax), true, filterIDsMin)
	}
	if m.sieve != nil || c.sifts() { // another takes the place of the old one
		if p, ok := m.nextSieve(sieveIDsMin); ok {
			return p, true
		}
	}
	return m.next(m.target(filtersPerAllIf, c.cfg.FilterIDsMax), false, max(filterIDsMin, min(m.ids/2, mergedIDsMax, c.cfg.BytesMax/mergedPerBudget)))
}

// next plans a merge: a filter over target ids first where bytes count, else
// blocks of blockIDs at most first.
func (m *memory) next(target int64, dense bool, blockIDs int64) (plan, bool) {
	if dense {
		if p, ok := m.nextFilter(target); ok {
			return p, true
		}
	}
	if p, ok := m.nextBlock(blockIDs); ok {
		return p, true
	}
	if len(m.blocks) > plentyBlocks {
		return m.nextFilter(target)
	}
	return plan{}, false
}

// nextFilter takes the oldest blocks, of target ids or somewhat more.
func (m *memory) nextFilter(target int64) (plan, bool) {
	ids, leaves := int64(0), 0
	for i, b := range m.blocks {
		ids, leaves = ids+int64(len(b.keys)), leaves+filterLeaves(b)
		if ids >= target || leaves > leavesMax/2 {
			return plan{blocks: slices.Clone(m.blocks[:i+1]), kind: toFilter, ids: ids, planes: int(m.planes)}, true
		}
	}
	return plan{}, false
}

// nextBlock takes the oldest blocks of the lowest level that has enough side by
// side. Newer ones first would leave some behind that never have neighbours again.
func (m *memory) nextBlock(blockIDs int64) (p plan, ok bool) {
	for end := mergedBlocks; end <= len(m.blocks); end++ {
		run := m.blocks[end-mergedBlocks : end]
		if ok && run[0].level >= p.blocks[0].level {
			continue
		}
		ids, leaves, same := int64(0), 0, true
		for _, b := range run {
			ids, leaves, same = ids+int64(len(b.keys)), leaves+len(b.starts), same && b.level == run[0].level
		}
		if same && ids <= blockIDs && leaves <= leafMask+1 {
			p, ok = plan{blocks: slices.Clone(run), ids: ids}, true // expiry lets go of the originals
		}
	}
	return p, ok
}

// bytes is what a merge costs while it is made, its result included.
func (p *plan) bytes() int64 {
	switch p.kind {
	case toFilter:
		return scratchBytes(p.ids) + filterBytes(p.ids, p.planes)
	case toSieve:
		return sieveBytes(p.ids)
	}
	return (8 + 4) * p.ids
}

// install puts what was made of a plan in the place of its blocks, as far as
// these have not expired meanwhile. What has makes the result know more than it must.
func (m *memory) install(p plan, r merged) {
	first, last := p.blocks[0].starts[0], p.blocks[len(p.blocks)-1].to
	if p.kind == toSieve {
		m.sift(r.sieve, last)
		return
	}
	from := slices.IndexFunc(m.blocks, func(b *block) bool { return b.starts[0] >= first })
	if from < 0 || m.blocks[from].to > last {
		return
	}
	to := from
	for to < len(m.blocks) && m.blocks[to].to <= last {
		m.size -= m.blocks[to].bytes()
		m.ids -= int64(len(m.blocks[to].keys))
		to++
	}
	if p.kind == toFilter {
		m.dropSieve() // what has filters is short of bytes, or asks many of them anyway
		m.blocks = slices.Clone(m.blocks[to:])
		r.filter.thin(int(m.planes))
		m.filters = append(m.filters, r.filter)
		m.size += r.filter.bytes()
		m.ids += r.filter.ids
		return
	}
	m.blocks = slices.Concat(m.blocks[:from], []*block{r.block}, m.blocks[to:])
	m.size += r.block.bytes()
	m.ids += int64(len(r.block.keys))
}

// mergeDue says that there is something to merge.
func (c *Cache) mergeDue(m *memory) bool {
	_, ok := c.plan(m)
	return ok
}

// wantMerge has an entry's blocks merged, if there are enough. Under e.mu, and before the entry is charged.
func (c *Cache) wantMerge(e *entry) {
	if c.dense() {
		e.mem.dropSieve()
	}
	if e.merging || !c.mergeDue(e.mem) {
		return
	}
	select {
	case c.merges <- e:
		e.merging = true
	default: // the next commit tries again
	}
}

func (c *Cache) runMerger(ctx context.Context) {
	var b builder
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-c.merges:
			for c.mergeOne(ctx, &b, e) {
				c.relieve(e)
			}
			e.mu.Lock()
			e.merging = false
			e.mu.Unlock()
			b = builder{} // it is not counted while idle, so it is not kept
		}
	}
}

// mergeOne makes one merge of an entry's blocks, outside its lock. It reports
// false when there is nothing to do, or no room for doing it.
func (c *Cache) mergeOne(ctx context.Context, b *builder, e *entry) bool {
	e.mu.Lock()
	m := e.mem
	if e.dead || m == nil {
		e.mu.Unlock()
		return false
	}
	p, ok := c.plan(m)
	e.mu.Unlock()
	if !ok {
		return false
	}
	r, ok := c.make(ctx, b, p)
	if !ok {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || e.mem != m {
		return false
	}
	m.install(p, r)
	c.charge(e)
	return true
}

// make merges what is planned, the memory it takes charged meanwhile, or
// reports false: then the blocks stay as they are, which is only larger or slower.
func (c *Cache) make(ctx context.Context, b *builder, p plan) (merged, bool) {
	n := p.bytes()
	c.bytes.Add(n)
	defer c.bytes.Add(-n)
	if c.bytes.Load() > c.cfg.BytesMax && !c.makeRoom(c.cfg.BytesMax, c.cfg.GuardFor, c.cfg.Now()) {
		return merged{}, false
	}
	c.stats.merges.Add(1)
	switch p.kind {
	case toBlock:
		return merged{block: merge(p.blocks)}, true
	case toSieve:
		return merged{sieve: newSieve(p.blocks, p.ids)}, true
	}
	f, err := b.build(ctx, p.blocks, p.planes)
	if err != nil {
		if ctx.Err() == nil {
			c.cfg.Log.Error("dedup cache: no filter, the blocks stay", "ids", p.ids, "error", err)
		}
		return merged{}, false
	}
	return merged{filter: f}, true
}

// mergeAlone merges what is being read and not yet looked up.
func (c *Cache) mergeAlone(ctx context.Context, b *builder, m *memory) {
	for {
		p, ok := c.plan(m)
		if !ok {
			return
		}
		r, ok := c.make(ctx, b, p)
		if !ok {
			return
		}
		m.install(p, r)
	}
}

// thin drops a memory's sieve, or else a plane of its filters, if SQL then reads at
// most vain ids in vain per id looked up, and reports whether it did.
func (m *memory) thin(vain int64) bool {
	if m.sieve != nil {
		m.dropSieve()
		return true
	}
	if m.planes == 0 || len(m.filters) == 0 || m.ids>>(mainBits+2*(m.planes-1)) > vain {
		return false
	}
	m.planes--
	for _, f := range m.filters {
		m.size -= f.bytes()
		f.thin(int(m.planes))
		m.size += f.bytes()
	}
	return true
}

// thin makes an entry smaller, slower and less precise.
func (c *Cache) thin(e *entry, vain int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || e.mem == nil || !e.mem.thin(vain) {
		return false
	}
	c.charge(e)
	c.stats.thinnings.Add(1)
	return true
}
