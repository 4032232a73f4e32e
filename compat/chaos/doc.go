// Package chaos breaks everything, then counts.
//
// A run starts three brokers on one database, with a proxy on every link, lets
// clients of both doors write and read while a nemesis breaks processes and links,
// heals, reads the whole log back at every broker, and hands the history to the
// checker. The checker is a pure function and is itself tested with histories known
// to be bad; the harness as a whole is tested with brokers known to be bad (make
// mutants).
//
//	history.go   what clients asked and were told
//	checker.go   what must hold of it, and of the log at the end
//	register.go  the same of each id, by search
//	site.go      the brokers and their links
//	proxy.go     a link that can hold, cut, refuse and swallow
//	workload.go  the clients
//	faults.go    what can be broken
//	nemesis.go   what is broken when
//
// transactions_test.go has clients of its own: steps of an ack, two pushes and a
// count, each of which takes effect once and as a whole.
package chaos
