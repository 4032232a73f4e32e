// Package kafkawire is the Kafka door: frames in, engine calls, frames out.
//
// # Life of a request
//
//	listener ─► server.go   Serve admits a connection, or closes it at a bound
//	            conn.go     read loop: the next frame, bounded in size and time
//	            frame.go    size and prefix are judged before anything is allocated
//	            api.go      the table gives the row: versions, size limit, handler
//	            budget.go   room for the frame, shared by all connections
//	            api.go      decode: header, kmsg; the frame belongs to its request
//	            conn.go     Produce is started at once; anything else waits for its
//	                        turn in the channel of replies
//	            produce.go …  the handler: decode → one engine call → encode
//	            conn.go     write loop: replies in the order of their requests
//
// Replies keep the order of requests without sequence numbers: the channel is
// the order. Only Produce overlaps Produce. A request that must wait is run by
// the write loop, so the read loop always has the next read under way and
// notices a hang-up, which ends the waits of that client and nothing else.
//
// # File map
//
//	server.go            Server: New, Serve, Shutdown; config.go group_config.go: every bound
//	conn.go              the two loops of a connection
//	frame.go walker.go   sizes, headers v0–v2, correlation ids, reply frames; bodies stepped over before they are decoded
//	api.go               THE table of requests; matrix.go prints it for README
//	engine.go            what this door asks of the room
//	errors.go            the room's errors and Kafka's codes, one table
//	budget.go reply_room.go sampler.go   bounds on bytes in flight, on replies not read, on lines in the log
//	frame_pool.go        memory for frames of records, used again
//	api_versions.go (18)  metadata.go (3)  describe_cluster.go (60)  describe_topic_partitions.go (75)
//	log_dirs.go (35)  describe_producers.go (61)  placement.go (43, 45, 46)
//	produce.go (0)  init_producer.go (22)
//	fetch.go (1)  fetch_session.go (KIP-227)  fetch_reply.go (records are not copied)
//	list_offsets.go (2)  leader_epoch.go (23)
//	topics.go (19, 20)  partitions.go (21, 37)  topic_names.go  internal_topics.go  topic_configs.go (the table)  configs.go (32, 33, 44)
//	find_coordinator.go (10)  offsets.go (8, 9)
//	group.go group_join.go group_member.go  a classic group, as a pure value
//	consumer_group.go consumer_group_member.go consumer_group_subscribe.go
//	consumer_group_assign.go consumer_group_reconcile.go   one of KIP-848, as a pure value
//	partition_set.go topic_image.go  what it is about: sets of partitions, the topics there are
//	groups.go consumer_groups.go live_group.go alarms.go   the groups there are, their callers and their clock
//	relay.go             groups of another broker behind the same advertised address
//	offsets_expiry.go    positions of groups that nobody is in any more
//	membership.go (11–14)  describe_groups.go (15)  list_groups.go (16, 42, 47)
//	consumer_group_heartbeat.go (68)  consumer_group_describe.go (69)
//
// # What is not served, and why
//
// A request that is not served is not advertised, and closes the connection, as
// no reply to it can be encoded. The two exceptions in the table: Produce is
// advertised from 0 and served from 3, because older librdkafka switches
// compression off where it does not see version 0.
//
//   - Transactions (24–28, transactional ids and batches): refused with 53, which
//     every client takes as final. They are planned.
//   - Share groups (76–79) and streams groups (88, 89): clients were not asked to
//     use anything else, or fall back to groups of consumers.
//   - ListOffsets 0, Fetch 0–3, Produce 0–2, OffsetForLeaderEpoch 0–1: their
//     answers would need formats that nothing stores any more.
//   - Telemetry (71, 72): clients skip it where it is not offered.
//   - Requests between brokers and controllers (4–7, 52–59 and others), moves
//     between log dirs (34): PostgreSQL replicates, brokers hold nothing. Elections and
//     reassignments (43, 45, 46) are answered: there is nothing to do.
//   - Client quotas (48, 49): nothing would hold anybody to them.
//
// Differences in what is served are in the comment of each handler. Two are met
// by most: any replication factor is accepted and reported as 1, and the internal
// topic __consumer_offsets is shown, but empty: positions are in the database.
package kafkawire
