// Package store is the ledger: PostgreSQL through pgx, and nothing else. It has
// no opinions: what a window or a lease means is decided above, what is stored
// is decided inside PostgreSQL, under the lock of a row.
//
// Every write is one function call in autocommit mode, so no lock waits for a
// client; in it lock and look are two statements, because a statement sees the
// snapshot taken before it waited. Every read is one statement, so one snapshot.
// An error says what was written: nothing (ErrUnavailable, ErrStorageFull), or
// nobody knows (ErrOutcomeUnknown), and then the same call is repeated.
//
// # Tables
//
//	cluster         one row: incarnation, leader epoch, catalog version, registrations
//	queues          name, topic id, options; a tombstone when deleted
//	log_partitions  number, name, log start, sidecar start. Append locks the row and never updates it
//	log_segments    (partition, end offset) → header and record batches of one flush
//	log_txns        (partition, end offset) → id base and id hashes of that flush; its newest row says the next offset
//	log_runs        sorted runs of those hashes, and log_run_blocks, their rows: derived, they only locate
//	log_compactions partition → how far it is compacted
//	producers       (partition, producer) → epoch and the last five batches
//	cursors         (partition, group) → position, lease, what was completed ahead
//	retries         (partition, group, offset) → failures of a message the group is not done with
//	leases          lease id → group and partitions; whether it is live only the cursors say
//	dead_letters    what groups gave up on, and dead_segments, the segments those lie in
//	subscriptions   (queue, group) → where a native group began
//	calls           call id → answer: what a repeated call is answered from, kept 900 s
//	kv              (namespace, key) → value, version, expiry
//	timers          (queue, key) → a message, and when it is due
//	brokers         id, process, address, heartbeat
//	group_activity  group → when members were last seen in it
//	group_slots     slot → the process that coordinates its groups, and the epoch it does so in
//	schema_version, schema_files   what Migrate applied
//
// # Lock order
//
// First of all, where a call has an id, its advisory lock (call_begin_1), on
// which only repeats of that call meet. Then:
//
//  1. kv
//  2. timers
//  3. queues
//  4. log_partitions, ascending id
//  5. group_slots, ascending
//  6. subscriptions, then cursors, ascending partition
//  7. leaves: group_activity, cluster, then brokers
//
// Whoever takes a later lock does not wait for an earlier one; FOR UPDATE SKIP
// LOCKED does not wait at all. Each function in schema/functions names its place.
//
// # Files
//
//	db.go incarnation.go dial*.go   pools, what a connection pins, which life of the database it belongs to
//	pooler.go                       what may stand in between
//	outage.go                       failed calls in the log, a line a second at most
//	errors.go call.go long.go       what an error means; one call, its rows, its error; one that takes long
//	migrate.go rights.go schema/    migrations, what the role may do, and one write function per file
//	query/                          one statement per file: reads, and the calls of the functions
//	catalog.go options.go           queues, partitions, what a queue is set to
//	brokers.go slots.go             who lives, and who coordinates which groups
//	expiry.go                       positions that nobody needs any more
//	append.go segment.go append_columns.go repeats.go   the write path
//	arrays.go binary_row.go         arrays and rows in PostgreSQL's binary form
//	data_param.go row_buffer.go     the bytes of segments, on their way there and back
//	window.go                       the sidecar, as the memory of ids reads it
//	runs.go run_entries.go          the sidecar, sorted beside it
//	read.go                         segments, marks, search by time and epoch
//	claim.go ack.go leases.go cursors.go   leases and positions
//	lag.go changes.go               what groups owe, what was written to
//	deadletters.go                  messages that groups gave up on
//	kv.go timers.go transaction.go  keys and values, messages for later, all kinds of writes as one
//	calls.go                        calls that take effect once
//	compaction.go                   what is superseded, taken out of segments
//	inspect.go                      sizes and producers, for who asks
//	retention.go                    bounded steps of forgetting
//	localpg/                        the PostgreSQL of a broker without a database URL
//	storetest/                      a schema per test
package store
