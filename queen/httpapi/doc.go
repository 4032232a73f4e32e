// Package httpapi is the native HTTP door: JSON in, engine calls, JSON out. It
// has no rules of its own: it bounds, reads and checks the form of a request,
// makes one engine call, and writes the answer.
//
// Life of a request: [Server.Handler] finds the row of the routes table
// (routes.go), gives the request an id, reads the body under a byte budget
// shared by all requests (body.go) and calls the row's handler. A handler
// returns an answer or an error; exchange.go writes either, counts it and logs
// it at debug level. Errors become a status and a word by one table (errors.go).
//
// # File map
//
//	server.go     Server: New, Serve, Shutdown; config.go: every bound
//	routes.go     the table: method, path, body limit, handler; 404 and 405
//	engine.go     what this door asks of the room
//	exchange.go   one request and its answer: id, panic, cross-origin check, log, metrics
//	connection.go connections, bounded; answers in one piece
//	malformed.go  what net/http refuses itself, in the form of all other answers
//	body.go       bodies under a limit, a time and a shared budget
//	scratch.go    the memory of pushes, used again
//	json.go json_string.go   a strict JSON reader that keeps values byte for byte
//	body_error.go what is wrong in a body, and where
//	write.go      JSON text appended to a buffer
//	list_page.go  the part of a list that is asked for
//	message.go    a stored message as pop and fetch show it
//	push_items.go headers.go   the items of a push body → queen.Message, item by item
//	lease.go dlq.go lease extension; dead letters and single messages
//	push.go pop.go ack.go configure.go fetch.go queues.go health.go
//	groups.go changes.go browse.go overview.go kv.go timers.go transaction.go   the handlers
//	openapi.go    the OpenAPI document, merged from openapi/*.json, one file per subject
//	kv_ops.go kv_answer.go   operations on keys as they are read, and what became of them
//	errors.go     queen error ↔ status and word
//	metrics.go    the door's metrics
//
// What is not served yet answers 404 no_such_route, or 400 not_served where a
// served route has a parameter, an option or a word that is not.
package httpapi
