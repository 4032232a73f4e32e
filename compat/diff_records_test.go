//go:build java

package compat

import (
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func diffProduce(s *side) {
	tp := s.made("produce", 1, nil)
	good := values("a", "b").encode()
	send := func(t topic, acks int16, parts ...part) func() kmsg.Request {
		return func() kmsg.Request { return produceRequest(t, acks, parts...) }
	}
	s.each("good", send(tp, -1, part{0, good}))
	s.each("acks-1", send(tp, 1, part{0, good}))
	s.each("no-such-topic", send(noTopic, -1, part{0, good}))
	s.ends("no-such-partition", send(tp, -1, part{7, good}))
	s.ends("partition-minus-1", send(tp, -1, part{-1, good}))
	s.ends("acks-2", send(tp, 2, part{0, good}))
	s.ends("no-partitions", send(tp, -1))
	mangled := func(f func(*kmsg.RecordBatch)) []byte {
		b := values("a", "b")
		b.mangle = f
		return b.encode()
	}
	bad := good
	bad = append([]byte(nil), bad...)
	bad[len(bad)-1] ^= 1
	magic := append([]byte(nil), good...)
	magic[batchMagicAt] = 3
	old := append([]byte(nil), good...)
	old[batchMagicAt] = 1
	for _, c := range []struct {
		label   string
		records []byte
	}{
		{"null-records", nil},
		{"no-records", []byte{}},
		{"two-batches", append(append([]byte(nil), good...), good...)},
		{"wrong-crc", bad},
		{"magic-3", magic},
		{"magic-1", old},
		{"cut-short", good[:len(good)-3]},
		{"control", mangled(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 5 })},
		{"transactional", mangled(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 4 })},
		{"codec-7", mangled(func(b *kmsg.RecordBatch) { b.Attributes |= 7 })},
		{"count-too-high", mangled(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 3, 2 })},
		{"count-too-low", mangled(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 1, 0 })},
		{"count-0", mangled(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 0, -1 })},
		{"last-delta", mangled(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 9 })},
		{"future", values("a").at(time.Now().Add(48 * time.Hour).UnixMilli()).encode()},
		{"time-minus-1", values("a").at(-1).encode()},
		{"too-large", values(strings.Repeat("x", 1_100_000)).encode()},
	} {
		s.ends(c.label, send(tp, -1, part{0, c.records}))
	}
	s.ends("good-beside-bad", send(tp, -1, part{0, good}, part{7, good}))
	for _, c := range codecs {
		b := values("a", "b")
		b.codec = codec(c.codec)
		records := b.encode()
		s.ends("codec-"+c.name, send(tp, -1, part{0, records}))
	}
	s.last("end", listOffsetsRequest(tp.name, -1, 0))

	compacted := s.made("produce-compacted", 1, map[string]*string{"cleanup.policy": kmsg.StringPtr("compact")})
	s.ends("null-key", send(compacted, -1, part{0, good}))
}

func diffIdempotence(s *side) {
	tp := s.made("idempotence", 1, nil)
	s.each("new-id", func() kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() })
	s.ends("new-id-timeout-0", func() kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis = 0
		return req
	})
	empty := kmsg.NewPtrInitProducerIDRequest()
	empty.TransactionalID = kmsg.StringPtr("")
	s.last("empty-transactional-id", empty)
	half := kmsg.NewPtrInitProducerIDRequest()
	half.ProducerID = 5
	s.last("id-without-epoch", half)

	init, ok := s.last("id", kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse)
	if !ok || init.ErrorCode != 0 {
		s.Fatalf("no producer id: %+v", init)
	}
	put := func(label string, epoch int16, seq int32, n int) {
		vs := make([]string, n)
		s.last(label, produceRequest(tp, -1, part{0, values(vs...).from(init.ProducerID, epoch, seq).encode()}))
	}
	for i := range 6 {
		put(fmt.Sprint("in-order-", i), 0, int32(3*i), 3)
	}
	put("resent-last", 0, 15, 3)
	put("resent-fifth", 0, 3, 3)
	put("resent-sixth", 0, 0, 3)
	put("part-of-last", 0, 15, 2)
	put("gap", 0, 21, 1)
	put("next", 0, 18, 1)
	put("new-epoch-not-at-0", 1, 5, 1)
	put("new-epoch", 1, 0, 1)
	put("old-epoch", 0, 19, 1)
	s.last("end", listOffsetsRequest(tp.name, -1, 0))
	unknown := values("a").from(1<<40, 0, 7).encode()
	s.ends("never-given-out", func() kmsg.Request { return produceRequest(tp, -1, part{0, unknown}) })
	negative := values("a").from(init.ProducerID, -1, 7).encode()
	s.ends("epoch-minus-1", func() kmsg.Request { return produceRequest(tp, -1, part{0, negative}) })
	seq := values("a").from(init.ProducerID, 1, -1).encode()
	s.ends("sequence-minus-1", func() kmsg.Request { return produceRequest(tp, -1, part{0, seq}) })
}

func diffFetch(s *side) {
	tp := s.made("fetch", 2, nil)
	for i := range 3 {
		s.last(fmt.Sprint("fill-", i), produceRequest(tp, -1, part{0, values("a", "b", "c").encode()}))
	}
	get := func(f fetchSpec, change func(*kmsg.FetchRequest), partitions ...int32) func() kmsg.Request {
		if f.maxBytes == 0 {
			f.maxBytes = 1 << 20
		}
		return func() kmsg.Request {
			req := fetchRequest(tp, f, partitions...)
			if change != nil {
				change(req)
			}
			return req
		}
	}
	s.each("all", get(fetchSpec{}, nil, 0))
	s.each("inside", get(fetchSpec{offset: 4}, nil, 0))
	s.each("at-end", get(fetchSpec{offset: 9}, nil, 0))
	s.each("beyond-end", get(fetchSpec{offset: 10}, nil, 0))
	s.each("no-such-topic", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = noTopic.name, noTopic.id }, 0))
	s.ends("offset-minus-1", get(fetchSpec{offset: -1}, nil, 0))
	s.ends("no-such-partition", get(fetchSpec{}, nil, 9))
	s.ends("partition-minus-1", get(fetchSpec{}, nil, -1))
	s.ends("two", get(fetchSpec{}, nil, 0, 1))
	s.ends("one-byte", get(fetchSpec{maxBytes: 1}, nil, 0))
	s.ends("one-byte-of-a-partition", get(fetchSpec{partMax: 1}, nil, 0))
	s.ends("read-committed", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 }, 0))
	s.ends("isolation-7", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.IsolationLevel = 7 }, 0))
	s.last("newer-epoch", get(fetchSpec{epoch: 1000}, nil, 0)())
	s.last("diverging", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 1000 }, 0)())
	s.last("nothing", get(fetchSpec{}, nil)())
	s.last("no-such-session", get(fetchSpec{session: 12345, turn: 3}, nil, 0)())
	s.last("session-0-turn-1", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.SessionEpoch = 1 }, 0)())
	opened, ok := s.last("open", get(fetchSpec{open: true}, nil, 0, 1)()).(*kmsg.FetchResponse)
	if !ok {
		s.Fatalf("no session")
	}
	id := opened.SessionID
	s.last("turn-1", get(fetchSpec{session: id, turn: 1}, nil)())
	s.last("turn-2-again-from-9", get(fetchSpec{session: id, turn: 2, offset: 9}, nil, 0)())
	s.last("turn-3", get(fetchSpec{session: id, turn: 3}, nil)())
	s.last("wrong-turn", get(fetchSpec{session: id, turn: 9}, nil)())
	s.last("close", get(fetchSpec{session: id, turn: -1}, nil)())
	s.last("closed", get(fetchSpec{session: id, turn: 4}, nil)())
}

func diffOffsets(s *side) {
	tp := s.made("offsets", 2, nil)
	for i := range 3 {
		s.last(fmt.Sprint("fill-", i), produceRequest(tp, -1, part{0, values("a", "b").at(int64(1000 * (i + 1))).encode()}))
	}
	for _, at := range []int64{-1, -2, -3, -4, -5, -6, -7, 0, 1000, 1001, 3000, 3001} {
		s.each(fmt.Sprint("at-", at), func() kmsg.Request { return listOffsetsRequest(tp.name, at, 0) })
		s.ends(fmt.Sprint("empty-at-", at), func() kmsg.Request { return listOffsetsRequest(tp.name, at, 1) })
	}
	s.ends("no-such-topic", func() kmsg.Request { return listOffsetsRequest(noTopic.name, -1, 0) })
	s.ends("no-such-partition", func() kmsg.Request { return listOffsetsRequest(tp.name, -1, 9) })
	s.ends("twice", func() kmsg.Request { return listOffsetsRequest(tp.name, -1, 0, 0) })
	newer := listOffsetsRequest(tp.name, -1, 0)
	newer.Topics[0].Partitions[0].CurrentLeaderEpoch = 1000
	s.last("newer-epoch", newer)
	committed := listOffsetsRequest(tp.name, -1, 0)
	committed.IsolationLevel = 1
	s.last("read-committed", committed)

	// The epoch in force, as the broker tells it.
	end := ask[*kmsg.ListOffsetsResponse](s.w, listOffsetsRequest(tp.name, -1, 0), s.served[kmsg.ListOffsets.Int16()].max)
	epoch := end.Topics[0].Partitions[0].LeaderEpoch
	s.each("epoch", func() kmsg.Request { return leaderEpochRequest(tp.name, epoch, 0) })
	s.ends("next-epoch", func() kmsg.Request { return leaderEpochRequest(tp.name, epoch+1, 0) })
	s.ends("epoch-minus-1", func() kmsg.Request { return leaderEpochRequest(tp.name, -1, 0) })
	s.ends("epoch-of-no-topic", func() kmsg.Request { return leaderEpochRequest(noTopic.name, epoch, 0) })
	s.ends("epoch-of-no-partition", func() kmsg.Request { return leaderEpochRequest(tp.name, epoch, 9) })
	ahead := leaderEpochRequest(tp.name, epoch, 0)
	ahead.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch + 5
	s.last("epoch-ahead", ahead)
}
