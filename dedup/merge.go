package dedup

import (
	"cmp"
	"context"
	"slices"
	"unsafe"
)

// Merging. A block of 4096 ids costs 8 bytes per id, and a look into each of very
// many would take long, so blocks are put under filters in two steps:
//
//	blocks ─16─► group: a small filter, and the blocks kept for the next step
//	groups ────► filter: a sixteenth of the partition's ids, the blocks let go
//
// A partition with less than a million ids takes the second step at once. So a
// look-up touches some tens of filters, and what expires last with a large
// filter is a sixteenth of the whole.
const (
	groupBlocks = 16
	groupIDs    = groupBlocks * blockIDsMax
	// A filter grows to this part of a partition: while memory is plenty to a
	// larger one, because a look-up asks every filter, and blocks wait for theirs at
	// three times its size.
	filtersPerAll   = 16
	filtersPerAllIf = 4 // while the budget is used to a quarter at most
	mergesQueued    = 1024
)

// group is a run of blocks under a filter that says which of them to look into.
type group struct {
	filter *filter
	blocks []*block
}

func (g *group) bytes() int64 {
	n := int64(unsafe.Sizeof(*g)) + int64(unsafe.Sizeof(g)) + 8*int64(cap(g.blocks)) + g.filter.bytes()
	for _, b := range g.blocks {
		n += b.bytes()
	}
	return n
}

func (g *group) newest() int64 { return g.filter.newest }

// end is the last offset of an id.
func (g *group) end() int64 { return g.blocks[len(g.blocks)-1].to }

// find is exact but for keys: what the filter names is looked up.
func (g *group) find(keys []uint64, hits []hit) []hit {
	for _, k := range keys {
		from, to, ok := g.filter.leaf(k)
		if !ok {
			continue
		}
		first, last := g.filter.starts[from], g.filter.starts[to]
		i, _ := slices.BinarySearchFunc(g.blocks, first, func(b *block, at int64) int { return cmp.Compare(b.to, at) })
		for ; i < len(g.blocks) && g.blocks[i].starts[0] <= last; i++ {
			hits = g.blocks[i].find(k, hits)
		}
		hits = g.filter.findRepeats(k, hits)
	}
	return hits
}

// plan is what to merge next: blocks that lie at the front of a memory's
// blocks or, groups, of its groups.
type plan struct {
	blocks []*block
	groups int  // the blocks are those of so many groups; 0: not yet in groups
	keep   bool // make a group of them
	ids    int64
	planes int
}

// target is how many ids the next filter of a memory should cover.
func (m *memory) target(filters int64, filterIDsMax int) int64 {
	target := int64(groupIDs)
	for 2*target <= min(m.ids/filters, int64(filterIDsMax)) {
		target *= 2
	}
	return target
}

func (c *Cache) target(m *memory) int64 {
	filters := int64(filtersPerAll)
	if c.bytes.Load() <= c.cfg.BytesMax/4 {
		filters = filtersPerAllIf
	}
	return m.target(filters, c.cfg.FilterIDsMax)
}

// next plans a merge, or returns false. alone: nobody looks the memory up yet,
// so the step over groups is left out.
func (m *memory) next(target int64, alone bool) (plan, bool) {
	p := plan{planes: int(m.planes)}
	groupsIDs, blocks := int64(0), 0
	for _, g := range m.groups {
		groupsIDs += g.filter.ids
		blocks += len(g.blocks)
	}
	var ready int64 // ids in the blocks of the next group
	for _, b := range m.blocks[:min(groupBlocks, len(m.blocks))] {
		ready += int64(len(b.keys))
	}
	switch full := len(m.blocks) >= groupBlocks; {
	case groupsIDs >= target || blocks > blocksMax-groupBlocks || blocks > 0 && full && ready >= target:
		p.groups = len(m.groups)
		for _, g := range m.groups {
			p.blocks = append(p.blocks, g.blocks...)
		}
	case !full:
		return p, false
	case !alone:
		p.blocks = slices.Clone(m.blocks[:groupBlocks]) // expiry lets go of the originals
		p.keep = ready < target
		if p.keep {
			p.planes = 0 // the blocks are asked anyway
		}
	case int64(len(m.blocks))*blockIDsMax >= target || len(m.blocks) >= blocksMax:
		p.blocks = slices.Clone(m.blocks[:min(len(m.blocks), blocksMax)])
	default:
		return p, false
	}
	for _, b := range p.blocks {
		p.ids += int64(len(b.keys))
	}
	return p, true
}

// install puts a filter in the place of what it was built from, as far as
// that has not expired meanwhile. What has makes the filter know more than it must.
func (m *memory) install(p plan, f *filter) {
	f.thin(int(m.planes))
	before, last := int64(0), p.blocks[len(p.blocks)-1].to
	if p.groups > 0 {
		n := 0
		for n < len(m.groups) && n < p.groups && m.groups[n].end() <= last {
			m.size -= m.groups[n].bytes()
			before += m.groups[n].filter.ids
			n++
		}
		if n == 0 {
			return
		}
		m.groups = slices.Clone(m.groups[n:])
	} else {
		n := 0
		for n < len(m.blocks) && n < len(p.blocks) && m.blocks[n].to <= last {
			m.size -= m.blocks[n].bytes()
			before += int64(len(m.blocks[n].keys))
			n++
		}
		if n == 0 {
			return
		}
		m.blocks = slices.Clone(m.blocks[n:])
	}
	m.ids += f.ids - before
	if p.keep {
		g := &group{filter: f, blocks: p.blocks}
		m.groups = append(m.groups, g)
		m.size += g.bytes()
		return
	}
	m.filters = append(m.filters, f)
	m.size += f.bytes()
}

// wantMerge has an entry's blocks merged, if there are enough. Under e.mu.
func (c *Cache) wantMerge(e *entry) {
	if e.merging || len(e.mem.blocks) < groupBlocks {
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

// mergeOne makes one filter of an entry's blocks, outside its lock. It reports
// false when there is nothing to do, or no room for doing it.
func (c *Cache) mergeOne(ctx context.Context, b *builder, e *entry) bool {
	e.mu.Lock()
	m := e.mem
	if e.dead || m == nil {
		e.mu.Unlock()
		return false
	}
	p, ok := m.next(c.target(m), false)
	e.mu.Unlock()
	if !ok {
		return false
	}
	f := c.build(ctx, b, p)
	if f == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || e.mem != m {
		return false
	}
	m.install(p, f)
	c.charge(e)
	return true
}

// build makes a planned filter, its scratch charged meanwhile, or returns nil:
// then the blocks stay as they are, which is only larger.
func (c *Cache) build(ctx context.Context, b *builder, p plan) *filter {
	n := scratchBytes(p.ids) + filterBytes(p.ids, p.planes)
	c.bytes.Add(n)
	defer c.bytes.Add(-n)
	if c.bytes.Load() > c.cfg.BytesMax && !c.makeRoom(c.cfg.BytesMax, c.cfg.GuardFor, c.cfg.Now()) {
		return nil
	}
	f, err := b.build(ctx, p.blocks, p.planes)
	if err != nil {
		if ctx.Err() == nil {
			c.cfg.Log.Error("dedup cache: no filter, the blocks stay", "ids", p.ids, "error", err)
		}
		return nil
	}
	c.stats.merges.Add(1)
	return f
}

// mergeAlone merges what is being read and not yet looked up.
func (c *Cache) mergeAlone(ctx context.Context, b *builder, m *memory) {
	for len(m.blocks) >= groupBlocks {
		p, ok := m.next(c.target(m), true)
		if !ok {
			return
		}
		f := c.build(ctx, b, p)
		if f == nil {
			return
		}
		m.install(p, f)
	}
}

// thin drops a plane of a memory's filters, if SQL then reads at most vain ids
// in vain per id looked up, and reports whether it did.
func (m *memory) thin(vain int64) bool {
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

// thin makes an entry's filters less precise.
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
