// Package clients runs other people's Kafka clients against a running broker.
//
// Each folder below holds a small real program, written as a user of that client
// would write it, with a manifest of its own (a nested go.mod, a pom.xml, a
// package.json, a requirements.txt), so that none of them enters ours. A program
// takes the address of a broker's door, prints `version V` and then a line for each
// thing it does, and ends with 1 if anything failed:
//
//	PASS codec-zstd (620ms)
//	FAIL rebalance (1m0s): not done after 1m0s
//	SKIP group-consumer: the broker does not offer …
//
// SKIP is for requests that the broker does not advertise, and nothing else.
//
// Run prepares the programs with the tools of their language (what those fetch
// goes to the user's cache folder) and runs one after the other. `make clients`
// runs all on a fresh database; `make clients-kafka` runs them against Apache
// Kafka, where they must pass as well: only then does a failure here mean
// something.
//
// queen-python is the original's own SDK and speaks to the HTTP door; it is not run
// against Apache Kafka.
//
//	clients.go   the table of clients, and what each needs to run
//	run.go       running, and reading what they print
//	run/         the command behind `make clients`
//	steps/       what the Go programs share
package clients
