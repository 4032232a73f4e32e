// Package kafkanode runs a single Apache Kafka node from its published jars.
//
// The compat suite claims to test Kafka's behaviour and not ours, so there must
// be a Kafka to run it against. The jars named in pom.xml are fetched once by
// Maven into a cache folder outside the repository; a node is one Java process
// that is broker and controller at once (KRaft), on two free loopback ports,
// with a data folder that goes away with it. Tool runs one of the console tools
// that come in the same jars.
//
// Needs `java` 17 and `mvn` in PATH, and the network on first use only.
package kafkanode
