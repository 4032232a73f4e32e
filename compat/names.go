package compat

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var nameCases = []Case{
	{"names/payloads-hold-any-bytes", anyBytes},
	{"names/header-keys-hold-any-text", headerKeys},
	{"names/odd-group-ids-and-metadata", oddGroups},
	{"names/odd-client-ids", oddClientIDs},
	{"names/odd-topic-names-are-17", oddTopics},
}

func anyBytes(ctx context.Context, t *T) {
	tp := t.topic(1)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	payloads := [][]byte{
		every, {0}, {0, 0, 0}, {0xff, 0xfe}, []byte("\xc3\x28"), []byte("\xed\xa0\x80"), // not UTF-8
		[]byte("null"), []byte("\\u0000"), []byte("'; DROP TABLE segments; --"), []byte("😀é"), bytes.Repeat([]byte{0}, 100_000),
	}
	cl := t.client(kgo.DefaultProduceTopic(tp.name))
	for _, p := range payloads {
		r := &kgo.Record{Key: p, Value: p, Headers: []kgo.RecordHeader{{Key: "h", Value: p}}}
		t.must(cl.ProduceSync(ctx, r).FirstErr(), "produce")
	}
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for i, r := range t.collect(ctx, reader, len(payloads))[0] {
		if p := payloads[i]; !bytes.Equal(r.Key, p) || !bytes.Equal(r.Value, p) || !bytes.Equal(r.Headers[0].Value, p) {
			t.Errorf("payload %d came back changed", i)
		}
	}
}

func headerKeys(ctx context.Context, t *T) {
	tp := t.topic(1)
	keys := []string{"a\x00b", "\x00", "😀", strings.Repeat("k", 10_000), " ", "queen-transaction-id", "transactionId"}
	r := &kgo.Record{Value: []byte("v")}
	for _, k := range keys {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(k)})
	}
	cl := t.client(kgo.DefaultProduceTopic(tp.name))
	t.must(cl.ProduceSync(ctx, r).FirstErr(), "produce")
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := t.collect(ctx, reader, 1)[0][0].Headers
	if len(got) != len(keys) {
		t.Fatalf("%d headers came back for %d", len(got), len(keys))
	}
	for i, k := range keys {
		if got[i].Key != k || string(got[i].Value) != k {
			t.Errorf("header %.20q came back as %.20q=%.20q", k, got[i].Key, got[i].Value)
		}
	}
}

// oddGroups: an id is taken, and then works, or it is refused with a code that
// says so. Nothing is half done.
func oddGroups(_ context.Context, t *T) {
	tp := t.topic(1)
	v := t.max(kmsg.OffsetCommit, 9)
	t.coordinator(t.group()) // the offsets topic exists from here on
	w := t.dial()
	clear := []int16{0, kerr.InvalidRequest.Code, kerr.InvalidGroupID.Code, kerr.InvalidTopicException.Code, kerr.OffsetMetadataTooLarge.Code}
	odd := []string{"nul\x00" + t.group(), "😀" + t.group(), "a b/c;'\"" + t.group(), strings.Repeat("g", 30_000) + t.group()}
	for i, id := range odd {
		note := fmt.Sprintf("nul \x00 😀 %d", i)
		code := w.commit(id, tp, v, commit{offset: int64(i), metadata: &note})
		t.wantCode(fmt.Sprintf("commit by group %.20q", id), code, clear...)
		if code != 0 {
			continue
		}
		got := w.committed(id, tp, t.max(kmsg.OffsetFetch, newest))
		if got.groupCode != 0 || got.code != 0 || got.offset != int64(i) || got.metadata == nil || *got.metadata != note {
			t.Errorf("position of group %.20q: %+v, want %d %q", id, got, i, note)
		}
	}
	for _, id := range odd {
		j := t.join(w, id, "", t.max(kmsg.JoinGroup, newest))
		t.wantCode(fmt.Sprintf("join of group %.20q", id), j.ErrorCode, clear...)
	}
	t.wantCode("heartbeat of an odd member", t.heartbeat(w, odd[0], "m\x00😀", 1), kerr.UnknownMemberID.Code, kerr.InvalidGroupID.Code)
}

func oddClientIDs(_ context.Context, t *T) {
	for _, id := range []string{"", "nul\x00", "😀", strings.Repeat("c", 30_000), "a=b,c=d"} {
		w := t.dial()
		w.form = kmsg.NewRequestFormatter(kmsg.FormatterClientID(id))
		ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), t.max(kmsg.Metadata, newest))
		group := t.group()
		w = t.dialTo(t.coordinator(group))
		w.form = kmsg.NewRequestFormatter(kmsg.FormatterClientID(id))
		r := ask[*kmsg.JoinGroupResponse](w, joinRequest(group, "", 6*time.Second), t.max(kmsg.JoinGroup, newest))
		// The member id is made of the client id, and must fit its field.
		t.wantCode(fmt.Sprintf("join by client %.20q", id), r.ErrorCode, kerr.MemberIDRequired.Code, kerr.InvalidRequest.Code)
	}
	w := t.dial()
	w.form = kmsg.NewRequestFormatter() // a null client id
	ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), t.max(kmsg.Metadata, newest))
}

func oddTopics(_ context.Context, t *T) {
	w := t.dial()
	v := t.max(kmsg.Metadata, newest)
	for _, name := range []string{"", ".", "..", "a/b", "nul\x00", "größe", "😀", strings.Repeat("t", 250), "../../etc"} {
		md := metadataOf(w, v, name, true)
		t.wantCode(fmt.Sprintf("Metadata of %.20q", name), md.ErrorCode, kerr.InvalidTopicException.Code)
	}
}
