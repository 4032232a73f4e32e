package queen

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"queenmq/dedup"
)

// keyPartition is where Kafka's clients send a record with this key: murmur2
// of the key, its sign bit cleared, modulo the number of partitions
// (org.apache.kafka.clients.producer.internals.BuiltInPartitioner).
func keyPartition(key []byte, n int) int {
	return int(murmur2(key)&0x7fffffff) % n
}

// idPartition spreads ids: a retry carries the id and meets its original.
func idPartition(h dedup.Hash, n int) int {
	return int(binary.BigEndian.Uint64(h[:8]) % uint64(n))
}

// murmur2 is Austin Appleby's MurmurHash2 with the seed Kafka uses.
func murmur2(b []byte) uint32 {
	const m, r = 0x5bd1e995, 24
	h := uint32(0x9747b28c) ^ uint32(len(b))
	for len(b) >= 4 {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
		b = b[4:]
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// pushTarget checks the names and the id of a message and finds its partition. What has
// to be made is made for the messages after it too.
func (e *Engine) pushTarget(ctx context.Context, m *Message, after []Message) (*partition, error) {
	if err := validateMessage(m); err != nil {
		return nil, err
	}
	return e.choosePartition(ctx, m, after...)
}

// choosePartition picks by name; in a fixed queue without a name by key as
// Kafka's clients do, else by id so that a retry meets its original, else in turn.
func (e *Engine) choosePartition(ctx context.Context, m *Message, after ...Message) (*partition, error) {
	name := m.Partition
	if name == "" {
		q, err := e.catalog.queue(ctx, QueueRef{Name: m.Queue})
		if err != nil && !errors.Is(err, ErrUnknownQueue) {
			return nil, err
		}
		if err == nil && q.describe().Fixed {
			n := q.size()
			var i int
			switch {
			case n == 0:
				return nil, fmt.Errorf("%w: %q has no partitions", ErrUnknownPartition, m.Queue)
			case m.Key != nil:
				i = keyPartition(m.Key, n)
			case m.ID != nil:
				i = idPartition(dedup.Of(m.ID), n)
			default:
				i = int(q.turn.Add(1) % uint32(n))
			}
			return e.catalog.named(ctx, m.Queue, strconv.Itoa(i))
		}
		name = DefaultPartition
	}
	return e.catalog.named(ctx, m.Queue, name, after...)
}
