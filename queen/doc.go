// Package queen is the engine: queues, partitions, cursors and leases over the
// ledger in package store. Doors translate requests into calls of this package;
// every decision that is not SQL's is made here.
//
// # The model
//
// A queue has partitions, each a log of messages with dense offsets. Producers
// append through either door; consumers read by offset, by a group's cursor, or
// by leased batches. What is written is written once, in one format, by one
// path; what a Kafka client sent is stored as sent.
//
// # Life of a message
//
//	door        Append (record batches) or Push (messages)
//	append.go   checks the batch; push.go finds partitions and folds ids repeated in the request
//	writer.go   joins the partition's open segment; a flusher takes up to 16 partitions
//	            into one call of store.Append and repeats it until its outcome is known
//	tail.go     keeps the committed segment for readers at the end of the log
//	spill.go    keeps it in a file when it leaves memory
//	waiters.go  wakes who waits for it
//	reader.go   gives whole batches, from memory where they are, else from the database
//	retention.go  forgets, in bounded steps
//
// # Glossary
//
//	queue       a named set of partitions (Kafka: topic)
//	partition   one log; a name (native) and a dense number (Kafka)
//	message     one record: key, value, headers, and an id
//	segment     one row of the log: the record batches of one flush
//	offset      a message's place in its partition, from 0, never reused
//	id          what names a message: the client's transactionId, or a minted one
//	message id  a UUIDv7: the segment's id base plus the place in the segment
//	hash        the 128-bit xxh3 of an id a client chose: its identity in deduplication
//	window      how long an id stays known, in seconds, by the database's clock
//	duplicate   the verdict on an id that is stored already; it names the original
//	cursor      a group's next offset in a partition
//	lease       a batch given to one consumer of a group for a time; one lease may cover several partitions
//	dead letter a message a group gave up on: told so, or failed beyond the queue's limit
//	mark        a partition's log start and next offset as last seen committed
//	incarnation one run of one database server over tables nobody put back; a restart, failover or restore begins another
//	epoch       the incarnation's number, written into segments as leader epoch
//
// # Files
//
//	engine.go      Open, Close, the list of goroutines; config.go: Config and every bound
//	errors.go      every error a door may see; ledger_error.go: those of the ledger, translated
//	queue.go options.go   the types of queues; queues.go: creating, configuring, deleting them
//	catalog.go catalog_queue.go catalog_refresh.go   queues and partitions by name, kept fresh
//	lookups.go     the partitions one request names, those that do not exist asked for together
//	partition.go   what is remembered of one; incarnation.go: which life of the database it is of
//	append.go push.go message.go   what producers ask for
//	entry.go writer.go alone.go flight.go layout.go vouch.go settle.go successor.go   the way into the log
//	budget.go runs.go   bytes under way; what the sidecar is sorted into
//	stumbles.go    first batches of producers that failed, which no later one overtakes
//	batch.go record.go record_ids.go record_rules.go native.go   record batches
//	compression.go recompression.go unpacking.go   their codecs, and how many are unpacked at once
//	segment.go packing.go id.go   the stored format, message ids
//	read.go reader.go fetch.go tail.go spill.go waiters.go watch.go   reading
//	damage.go      what is stored and cannot be read, told to the log
//	answer_room.go the memory of answers, over all clients
//	offsets.go times.go   offsets by epoch and by time, committed positions; truncate.go: a raised log start
//	changes.go     which partitions were written to
//	groups.go lag.go  listing, moving and deleting groups; what they owe
//	count.go tally.go what all queues hold and all groups owe, in steps; made once for all who ask
//	deadletter.go  what groups gave up on: listed, replayed, purged
//	pop.go popper.go ack.go leases.go  leased batches
//	hotlist.go     which partitions probably have something to claim; looker.go, look.go ask the database
//	transaction.go transaction_ack.go turns.go   several kinds of writes as one
//	kv.go kv_read.go timers.go timer_fire.go  keys and values, messages for later; repeat.go: calls made again until their outcome is known
//	brokers.go slots.go   this process among its peers, and its share of the consumer groups
//	retention.go expiry.go   bounded steps of forgetting
//	compaction.go compact.go latest.go  superseded messages go
//	inspect.go     sizes and producers, for who asks
//	names.go       which names there can be; partitioner.go: which partition a message goes to
//	window_source.go metrics.go   how the memory of ids reads a window back; what is counted
package queen
