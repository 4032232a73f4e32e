package store

import (
	"context"
	_ "embed"
	"fmt"
)

//go:embed query/append.sql
var appendSQL string

// Append stores segments of several partitions in one autocommit call. The
// segments must be in ascending order of Partition, none twice. With wait
// false, partitions whose row is locked are answered SegmentBusy.
//
// An error speaks of the whole call. After ErrOutcomeUnknown the call may be
// repeated as it is, however often: what an attempt stored is found by its id base.
func (db *DB) Append(ctx context.Context, segs []Segment, wait bool) ([]SegmentResult, error) {
	conn, err := db.write.Acquire(ctx)
	if err != nil {
		return nil, db.acquireError("append", err)
	}
	defer conn.Release()
	epoch := incarnationOf(conn.Conn()).Epoch
	args := append(appendArgs(segs, epoch, wait, thePlaceOfData{}), follows(segs))
	rows, err := queryWithData(ctx, conn.Conn(), "append", appendSQL, args, dataOf(segs))
	if err != nil {
		return nil, db.writeError("append", conn.Conn(), err)
	}
	res, err := readSegmentResults(rows, len(segs))
	if err != nil {
		prepareAnew(ctx, conn.Conn(), "append", err)
	}
	if err := db.writeError("append", conn.Conn(), err); err != nil {
		return nil, err
	}
	if len(res) != len(segs) {
		return nil, fmt.Errorf("append: %d answers to %d segments", len(res), len(segs))
	}
	for i := range res {
		res[i].Epoch = epoch
		res[i].splitDups(int32(len(segs[i].Hashes)))
	}
	return res, nil
}
