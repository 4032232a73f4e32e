// Package bench puts load on a broker, or on the bare PostgreSQL under it, and
// compares two such sides in one run.
//
// The answer is a ratio. Two sides take turns, a round (or part of one) each, in the order
// A B B A A B …, so that a machine that slows down slows both; each pair of
// rounds gives one ratio, and the median of the pairs is the result. A number
// without its conditions is worth nothing, so they are part of every report.
//
//	compare.go     rounds and their order; ratio.go: how two sides compare
//	meter.go       what was answered, and how fast, inside the measured time
//	payload.go     values that do not repeat and carry their own checksum
//	kafka.go       the side that produces through the Kafka protocol
//	e2e.go         the side that measures from when a record was due to its arrival
//	pace.go        a fixed rate: when each record is due
//	sleep_*.go     waiting more exactly than the runtime's timers
//	clients.go     clients that run at once
//	consume.go     the side that reads back what was produced
//	push.go        the side that pushes over HTTP
//	pop.go         the side that pops and acknowledges over HTTP
//	engine.go      the side that pushes into an engine in this process
//	rows.go        the side that inserts a row per message, without a broker
//	batches.go     the messages of the last two
//	ids.go         what explicit ids look like; seen.go: which of them were read back
//	baseline.go    the bare writer of the same bytes into the same PostgreSQL
//	database.go    the connection that prepares, settles and asks for settings
//	conditions.go  cores, settings, the disk's fsync
//	report.go      the report as text and as JSON
//	table.go       many reports as one table
//	progress.go    the line on a terminal
//
// The load is closed, but for e2e's: each client waits for room before it sends
// more, and latency under it is that of a saturated system. That of e2e is open:
// a record is due at its time, and its latency counts from then.
//
// DESIGN.md says why.
package bench
