// Command queen is the one binary: the broker and its command line. This
// package wires rooms together and owns nothing; a rule found here is in the
// wrong place.
//
//	main.go      every command, flag, environment variable, default and help text
//	serve.go     opens database → engine → doors, and closes in reverse
//	database.go  the managed or the external database, migrated and open
//	engine.go    the engine, and the doors in front of it
//	identity.go  the id a broker keeps in its data folder
//	address.go   where to listen, what to advertise, what is refused
//	unused.go    flags that have no effect beside others, refused
//	debug.go     profiles, for this machine only
//	log.go       the log on stderr
//	signals.go   being told to stop
//	bench.go     queen bench: which loads, on what; the loads are in bench/
//	bench_e2e.go bench_push.go bench_pop.go bench_dedup.go bench_table.go  some of them
//	bench_http.go  what loads through the HTTP door have
//	bench_run.go what every load has: rounds, the database, the report
//	bench_serve.go bench_engine.go  a broker, or an engine alone, for as long as a load lasts
//	migrate.go   queen migrate
//	compat.go    queen compat: the suite is compat/
//	client.go    the HTTP client of the commands below: flags, one call, errors with their fix
//	show.go      tables for people, JSON for programs; nothing a terminal would obey
//	push.go pop.go ack.go queue.go group.go dlq.go kv.go   those commands
//	version.go   queen version
package main
