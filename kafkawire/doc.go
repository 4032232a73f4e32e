// Package kafkawire is the Kafka door: frames in, engine calls, frames out.
package kafkawire
