package dedup

import (
	"context"
	"time"
)

// Source reads back what a partition's ledger knows, from one snapshot, so that
// an entry of the cache can be born complete, or catch up with other brokers.
type Source interface {
	// Window streams the sidecar rows of a partition that end above the offset
	// after (−1: all) and were created within the last seconds by the database's
	// clock, in the order of their offsets: first and last offset, when stored,
	// and one hash per offset (none: all were minted). The hashes are row's only
	// until it returns; an error from row ends the stream and is returned.
	//
	// Rows that are left out because they are too old lie before all others,
	// since creation times never fall within a partition. verified is the end of
	// the newest row of the same snapshot, in the window or not, −1 if there is
	// none; epoch is the incarnation that was read; dbNow the database's clock.
	Window(ctx context.Context, partition int64, seconds int32, after int64,
		row func(base, end int64, createdAt time.Time, hashes []Hash) error,
	) (verified int64, epoch int32, dbNow time.Time, err error)
}
