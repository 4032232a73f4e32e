package queen

import (
	"context"
	"encoding/binary"
	"fmt"
)

// unpacking bounds the record batches that are decompressed at once to be checked. Each
// may take DecompressedBytesMax of memory for it, however few bytes it came in, and
// more at once than there are processors would not be done sooner.
type unpacking chan struct{}

// take waits for a place until ctx ends.
func (u unpacking) take(ctx context.Context) error {
	select {
	case u <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %d compressed record batches are being checked, the bound is as many", ErrOverloaded, cap(u))
	}
}

func (u unpacking) give() { <-u }

// isCompressed says whether a batch, or what claims to be one, has compressed records.
func isCompressed(b []byte) bool {
	return len(b) >= batchHeaderLen && binary.BigEndian.Uint16(b[batchAtAttributes:])&attrCodecMask != 0
}
