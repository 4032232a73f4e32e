// Package queen is the engine: queues, partitions, cursors and leases over the
// ledger in package store. Doors translate requests into calls of this package;
// every decision that is not SQL's is made here.
package queen
