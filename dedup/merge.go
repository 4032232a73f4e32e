package dedup

import "context"

const (
	groupIDs     = 16 * blockIDsMax // ids of a group
	mergesQueued = 1024
)

type filter struct {
	leaves []Span
	newest int64
	ids    int64
}

func (f *filter) bytes() int64                        { return 0 }
func (f *filter) find(_ []uint64, hits []Span) []Span { return hits }

type group struct {
	filter *filter
	blocks []*block
}

func (g *group) bytes() int64  { return 0 }
func (g *group) newest() int64 { return g.filter.newest }

func (c *Cache) runMerger(ctx context.Context)       { <-ctx.Done() }
func (c *Cache) wantMerge(*entry)                    {}
func (c *Cache) mergeAlone(context.Context, *memory) {}
func (c *Cache) thin(*entry) bool                    { return false }
