package compat

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var offsetCases = []Case{
	{"offsets/time-lookup-is-first-at-or-after", timeLookup},
	{"offsets/time-lookup-inside-a-batch", timeLookupInside},
	{"offsets/time-lookup-begins-at-the-log-start", timeLookupAboveStart},
	{"offsets/earliest-latest-max-timestamp", specialOffsets},
	{"offsets/unknown-partitions", offsetsUnknown},
	{"offsets/leader-epoch-end", leaderEpochEnd},
	{"offsets/commit-and-fetch-at-every-version", commitEveryVersion},
	{"offsets/unknown-group-is-minus-1", unknownGroup},
	{"offsets/commit-refusals", commitRefusals},
	{"offsets/negative-position-is-stored-as-sent", negativePosition},
}

func timeLookup(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	for _, ts := range []int64{2, 4, 6, 8} {
		got := w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("x").at(ts).encode()})
		t.wantCode("produce", got[0].ErrorCode, 0)
	}
	for _, limit := range []int16{1, 4, newest} {
		v := t.max(kmsg.ListOffsets, limit)
		for ts, want := range map[int64][2]int64{
			0: {0, 2}, 1: {0, 2}, 2: {0, 2}, 3: {1, 4}, 4: {1, 4}, 5: {2, 6}, 7: {3, 8}, 8: {3, 8}, 9: {-1, -1},
		} {
			p := w.offsetAt(tp.name, v, 0, ts)
			t.wantCode("lookup", p.ErrorCode, 0)
			if p.Offset != want[0] || p.Timestamp != want[1] {
				t.Errorf("v%d, at %d: offset %d of time %d, want %d of %d", v, ts, p.Offset, p.Timestamp, want[0], want[1])
			}
		}
	}
}

// timeLookupInside: the record is found inside its batch, compressed or not,
// though times go back and forth.
func timeLookupInside(_ context.Context, t *T) {
	for _, c := range codecs {
		tp := t.topic(1)
		w := t.dialTo(t.leader(tp.name, 0))
		b := values("a", "b", "c", "d").at(1000)
		b.codec = codec(c.codec)
		for i, delta := range []int64{0, 30, 10, 50} {
			b.records[i].TimestampDelta64 = delta
		}
		got := w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, b.encode()})
		t.wantCode("produce", got[0].ErrorCode, 0)
		for ts, want := range map[int64]int64{1: 0, 1000: 0, 1001: 1, 1030: 1, 1031: 3, 1050: 3, 1051: -1} {
			p := w.offsetAt(tp.name, t.max(kmsg.ListOffsets, newest), 0, ts)
			if p.Offset != want {
				t.Errorf("%s, at %d: offset %d, want %d", c.name, ts, p.Offset, want)
			}
		}
	}
}

// timeLookupAboveStart: what was deleted is not found, also where the log starts
// inside a batch, and what follows it there is.
func timeLookupAboveStart(_ context.Context, t *T) {
	v := t.max(kmsg.ListOffsets, newest)
	for _, c := range codecs {
		tp := t.topic(1)
		w := t.dialTo(t.leader(tp.name, 0))
		for _, first := range []int64{1000, 2000} {
			b := values("a", "b", "c", "d", "e").at(first)
			b.codec = codec(c.codec)
			for i, delta := range []int64{0, 90, 10, 20, 50} {
				b.records[i].TimestampDelta64 = delta
			}
			t.wantCode("produce", w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, b.encode()})[0].ErrorCode, 0)
		}
		t.wantCode("delete", w.deleteRecords(tp.name, t.max(kmsg.DeleteRecords, newest), 0, 3).ErrorCode, 0)
		for ts, want := range map[int64]int64{0: 3, 1000: 3, 1020: 3, 1021: 4, 1050: 4, 1051: 5, 1090: 5, 2000: 5, 2001: 6, 2091: -1} {
			p := w.offsetAt(tp.name, v, 0, ts)
			t.wantCode("lookup", p.ErrorCode, 0)
			if p.Offset != want {
				t.Errorf("%s, at %d: offset %d, want %d", c.name, ts, p.Offset, want)
			}
		}
	}
}

func specialOffsets(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.ListOffsets, newest)
	expect := func(when string, ts, offset, timestamp int64) {
		p := w.offsetAt(tp.name, v, 0, ts)
		t.wantCode("lookup", p.ErrorCode, 0)
		if p.Offset != offset || p.Timestamp != timestamp {
			t.Errorf("%s, %d: offset %d of time %d, want %d of %d", when, ts, p.Offset, p.Timestamp, offset, timestamp)
		}
	}
	expect("empty", -1, 0, -1)
	expect("empty", -2, 0, -1)
	expect("empty", 5, -1, -1)
	if v >= 7 {
		expect("empty", -3, -1, -1)
	}
	for _, ts := range []int64{20, 70, 30} {
		got := w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("x").at(ts).encode()})
		t.wantCode("produce", got[0].ErrorCode, 0)
	}
	expect("three records", -1, 3, -1)
	expect("three records", -2, 0, -1)
	if v >= 7 {
		expect("three records", -3, 1, 70)
	}
	if v >= 8 {
		expect("three records", -4, 0, -1)
	}
	if r, _ := t.offers(kmsg.ListOffsets); r.min <= 6 && r.max >= 7 {
		p := w.offsetAt(tp.name, 6, 0, -3)
		t.wantCode("max timestamp in v6", p.ErrorCode, kerr.UnsupportedVersion.Code)
	}
}

func offsetsUnknown(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	for _, limit := range []int16{1, newest} {
		v := t.max(kmsg.ListOffsets, limit)
		for _, ts := range []int64{-1, -2, 0} {
			p := w.offsetAt(tp.name, v, 4, ts)
			t.wantCode("partition 4 of 1", p.ErrorCode, kerr.UnknownTopicOrPartition.Code)
			p = w.offsetAt(t.name("compat-missing"), v, 0, ts)
			t.wantCode("a topic nobody has", p.ErrorCode, kerr.UnknownTopicOrPartition.Code)
		}
	}
}

// leaderEpochEnd: the epoch in force ends at the end of the log, across versions. Case O17.
func leaderEpochEnd(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	for range 10 {
		got := w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("x").encode()})
		t.wantCode("produce", got[0].ErrorCode, 0)
	}
	epoch := metadataOf(w, t.max(kmsg.Metadata, newest), tp.name, false).Partitions[0].LeaderEpoch
	top := t.max(kmsg.OffsetForLeaderEpoch, newest)
	offered, _ := t.offers(kmsg.OffsetForLeaderEpoch)
	for v := max(offered.min, 2); v <= top; v++ {
		end := func(asked int32, partition int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
			r := ask[*kmsg.OffsetForLeaderEpochResponse](w, leaderEpochRequest(tp.name, asked, partition), v)
			return r.Topics[0].Partitions[0]
		}
		p := end(epoch, 0)
		if p.ErrorCode != 0 || p.LeaderEpoch != epoch || p.EndOffset != 10 {
			t.Errorf("v%d, epoch %d: code %d, epoch %d, end %d; want 0, %d, 10", v, epoch, p.ErrorCode, p.LeaderEpoch, p.EndOffset, epoch)
		}
		for _, asked := range []int32{epoch + 1, -1} {
			p = end(asked, 0)
			if p.ErrorCode != 0 || p.LeaderEpoch != -1 || p.EndOffset != -1 {
				t.Errorf("v%d, epoch %d: code %d, epoch %d, end %d; want 0, -1, -1", v, asked, p.ErrorCode, p.LeaderEpoch, p.EndOffset)
			}
		}
		t.wantCode(fmt.Sprintf("v%d, partition 9 of 1", v), end(epoch, 9).ErrorCode, kerr.UnknownTopicOrPartition.Code)
		req := leaderEpochRequest(tp.name, epoch, 0)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch + 1
		r := ask[*kmsg.OffsetForLeaderEpochResponse](w, req, v)
		t.wantCode(fmt.Sprintf("v%d, current epoch ahead", v), r.Topics[0].Partitions[0].ErrorCode, kerr.UnknownLeaderEpoch.Code)
	}
}

// commitEveryVersion: a position set from outside a group, with its metadata
// and leader epoch, comes back in every shape the requests have had.
func commitEveryVersion(_ context.Context, t *T) {
	tp := t.topic(1)
	group := t.group()
	w := t.dialTo(t.coordinator(group))
	commits, _ := t.offers(kmsg.OffsetCommit)
	fetches, _ := t.offers(kmsg.OffsetFetch)
	topCommit, topFetch := t.max(kmsg.OffsetCommit, newest), t.max(kmsg.OffsetFetch, newest)
	offset := int64(0)
	for v := max(commits.min, 2); v <= topCommit; v++ {
		offset++
		note := fmt.Sprintf("note of v%d", v)
		c := commit{offset: offset, leaderEpoch: -1, metadata: &note}
		if v >= 6 {
			c.leaderEpoch = 0
		}
		t.wantCode(fmt.Sprintf("OffsetCommit v%d", v), w.commit(group, tp, v, c), 0)
		for fv := max(fetches.min, 1); fv <= topFetch; fv++ {
			got := w.committed(group, tp, fv)
			if got.groupCode != 0 || got.code != 0 || got.offset != offset || got.metadata == nil || *got.metadata != note {
				t.Errorf("OffsetFetch v%d after OffsetCommit v%d: %+v, want offset %d, %q", fv, v, got, offset, note)
			}
			if fv >= 5 && got.leaderEpoch != c.leaderEpoch {
				t.Errorf("OffsetFetch v%d after OffsetCommit v%d: leader epoch %d, want %d", fv, v, got.leaderEpoch, c.leaderEpoch)
			}
		}
	}
}

// unknownGroup: not having committed is no error.
func unknownGroup(_ context.Context, t *T) {
	tp := t.topic(1)
	group := t.group()
	w := t.dialTo(t.coordinator(group))
	fetches, _ := t.offers(kmsg.OffsetFetch)
	for v := max(fetches.min, 1); v <= t.max(kmsg.OffsetFetch, newest); v++ {
		got := w.committed(group, tp, v)
		if got.groupCode != 0 || got.code != 0 || got.offset != -1 {
			t.Errorf("v%d: %+v, want offset -1 without an error", v, got)
		}
	}
}

func commitRefusals(_ context.Context, t *T) {
	tp := t.topic(1)
	group := t.group()
	w := t.dialTo(t.coordinator(group))
	v := t.max(kmsg.OffsetCommit, 9) // by name
	long := strings.Repeat("x", 4097)
	fits := long[:4096]
	t.wantCode("metadata of 4097 bytes", w.commit(group, tp, v, commit{metadata: &long}), kerr.OffsetMetadataTooLarge.Code)
	t.wantCode("metadata of 4096 bytes", w.commit(group, tp, v, commit{metadata: &fits}), 0)
	t.wantCode("partition 8 of 1", w.commit(group, tp, v, commit{partition: 8}), kerr.UnknownTopicOrPartition.Code)
	missing := topic{name: t.name("compat-missing")}
	t.wantCode("a topic nobody has", w.commit(group, missing, v, commit{}), kerr.UnknownTopicOrPartition.Code)
	stranger := commit{member: "stranger", generation: 3}
	t.wantCode("a member nobody has", w.commit(group, tp, v, stranger),
		kerr.UnknownMemberID.Code, kerr.IllegalGeneration.Code, kerr.GroupIDNotFound.Code)
}

// negativePosition: a position below 0 is not refused. kafkajs commits −2 to start
// over after it was told that its position is out of range, and waits for ever if
// that does not work.
func negativePosition(_ context.Context, t *T) {
	tp := t.topic(1)
	group := t.name("compat-group")
	w := t.dialTo(t.coordinator(group))
	for _, limit := range []int16{2, 5, newest} {
		cv, fv := t.max(kmsg.OffsetCommit, limit), t.max(kmsg.OffsetFetch, limit)
		for _, at := range []int64{7, -2, -1} {
			t.wantCode("commit", w.commit(group, tp, cv, commit{offset: at, leaderEpoch: -1, metadata: kmsg.StringPtr("m")}), 0)
			if got := w.committed(group, tp, fv); got.code != 0 || got.offset != at {
				t.Errorf("v%d: committed %d, fetched %+v", cv, at, got)
			}
		}
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group, rg.Topics = group, nil
	req.Groups = append(req.Groups, rg)
	all := ask[*kmsg.OffsetFetchResponse](w, req, t.max(kmsg.OffsetFetch, newest)).Groups
	if len(all) != 1 || len(all[0].Topics) != 1 || all[0].Topics[0].Partitions[0].Offset != -1 {
		t.Errorf("all positions of the group: %+v", all)
	}
}
