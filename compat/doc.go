// Package compat is a Kafka user with a stopwatch: franz-go clients against a running broker.
package compat
