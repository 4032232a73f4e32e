package queen

import (
	"context"
	"time"

	"queenmq/dedup"
	"queenmq/store"
)

// windowSource lets the cache of ids read back what the ledger knows.
type windowSource struct{ db *store.DB }

// Window implements dedup.Source.
func (s windowSource) Window(ctx context.Context, partition int64, seconds int32, after int64,
	row func(base, end int64, createdAt time.Time, hashes []dedup.Hash) error,
) (verified int64, epoch int32, dbNow time.Time, err error) {
	var hashes []dedup.Hash
	w, err := s.db.ReadWindow(ctx, partition, seconds, after, func(r store.WindowRow) error {
		hashes = hashes[:0]
		for _, h := range r.Hashes {
			hashes = append(hashes, h)
		}
		return row(r.Base, r.End, r.CreatedAt, hashes)
	})
	return w.End, w.Epoch, w.At, err
}
