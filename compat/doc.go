// Package compat is a Kafka user with a stopwatch: franz-go clients and bare
// connections against a running broker.
//
// Every case of the suite is a behaviour of Apache Kafka. It is written so that
// it passes against Apache Kafka (package kafkanode runs one), and only then
// says something about another broker. What a broker does not advertise is
// skipped, never failed; what it advertises must work.
//
// The suite is a library. `queen compat --brokers HOST:PORT` runs it, and so does
// `go test ./compat`, there against the real binary on a fresh database or
// against COMPAT_SEEDS. The package imports nothing of ours: it only speaks the
// network.
//
// File map:
//
//	suite.go        Case, Options, Run, Report
//	t.go            T: the verdict; clients, topics and names of a case
//	wire.go         a bare connection: exact versions, exact order, strict decoding
//	batch.go        record batches, true and lying
//	requests.go     requests and the part of the reply that matters
//	versions.go conn.go produce.go idempotence.go fetch.go sessions.go
//	offsets.go groups.go consumer_groups.go admin.go names.go
//	configs.go compaction.go partitions.go inspect.go   the cases, one file per subject
//	kgo_test.go     franz-go's own tests (make kgo); expect/kgo.txt lists what does not pass
//	broker/         the shipped binary as a process, for the product's own tests
//	chaos/          faults under load, and the checker that counts afterwards
//	kafkanode/      an Apache Kafka node from its published jars
//	pgmajors/       the PostgreSQL versions we promise, to run the tests on
//	clients/        other people's clients, each a program with its own manifest
//
// The tests beside the suite (shape_test.go, dedup_test.go, restart_test.go, packed_test.go,
// limits_test.go, kcat_test.go) show what this product promises beyond Kafka.
// diff_test.go (build tag java) asks Apache Kafka and us the same. cost_test.go
// and its parts measure what a message costs as something grows (make scale).
package compat
