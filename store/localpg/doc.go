// Package localpg runs the PostgreSQL of `queen serve` when no database URL was
// given: a child process of ours, on a unix socket nobody else can open, never
// as root, in a data folder that one broker holds at a time.
//
// The data folder:
//
//	DataDir/
//	  lock          held (flock) by the live broker, its process id inside
//	  pg/           the cluster; pg/queen.conf is ours and rewritten at each start
//	  pg/local.conf optional, the operator's own settings; read after ours
//	  pg/log/       the server's log, one file per weekday
//	  pg.new-*      an initdb that has not finished; removed at the next start
//	  run/          the socket (a short folder under /tmp when this path is too long)
//	  start.log     what the server said before it opened its log
//
// The life of the server, as the supervisor sees it:
//
//	          ┌────────── postmaster.pid names a live server of this folder
//	          ▼
//	start ─► adopt ───────────┐
//	  │                       ▼           exits
//	  └────► launch ───────► ready ────────────────► wait, longer each time ─► start
//	                          │ Stop
//	                          ▼
//	             fast ─► immediate ─► kill ─► Done
//
// Files:
//
//	config.go    Config and its defaults
//	server.go    Server: Start, Stop, the supervisor
//	process.go   one postmaster: launched or adopted, watched, signalled
//	ready.go     waiting for the first connection; creating the database
//	pidfile.go   postmaster.pid, and whether the process it names is ours
//	url.go       what to connect with, also from another process
//	locate.go    finding the binaries
//	account.go   which user runs the server
//	folder.go    the folders, who owns them, who can reach them
//	lock.go      one broker per data folder
//	initdb.go    making the cluster, all or nothing
//	settings.go  queen.conf and the settings no file can change
package localpg
