// Package chaos kills everything, then counts.
//
// A run starts brokers on one database, lets clients of both doors write and
// read while a nemesis ends backends, servers and brokers, heals, reads the whole
// log back, and hands the history to the checker. The checker is a pure function
// and is itself tested with histories known to be bad.
//
//	history.go   what clients asked and were told
//	checker.go   what must hold of it, and of the log at the end
//	proxy.go     a door in front of PostgreSQL that can hold, cut and swallow
//	workload.go  the clients
//	nemesis.go   the faults
package chaos
