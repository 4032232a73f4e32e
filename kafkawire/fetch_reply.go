package kafkawire

import (
	"encoding/binary"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchReply is a FetchResponse whose records stay where they are: in the
// engine's shared buffers, which the reply's own bytes are written around.
type fetchReply struct {
	*kmsg.FetchResponse
	batches [][][]byte // per partition, in the order of Topics
	answers []partitionAnswer
}

// encoded lets go of what is not needed any more when the reply lies encoded.
func (f *fetchReply) encoded() {
	f.Topics, f.batches = nil, nil
	var holding []partitionAnswer
	for _, a := range f.answers {
		if len(a.Batches) > 0 || a.code == codeUnsupportedCompression { // the others share what these hold, if anything
			holding = append(holding, a)
		}
	}
	f.answers = holding
}

// making is about what making the reply takes, but for the engine's buffers.
func (f *fetchReply) making(include []bool) int64 {
	n := int64(0)
	for i := range f.answers {
		if !include[i] {
			continue
		}
		n += fetchEntryBytes
		for _, b := range f.answers[i].Batches {
			if len(b) < copiedBelow {
				n += int64(len(b))
			}
		}
	}
	return n
}

// fetchEntryBytes is about what an entry of the reply takes, decoded and encoded.
const fetchEntryBytes = 300

// release gives the engine's buffers back once the reply is written.
func (f *fetchReply) release() {
	for i := range f.answers {
		f.answers[i].Release()
	}
}

// cutWhenWanted calls cut when others wait for the memory that the reply keeps.
func (f *fetchReply) cutWhenWanted(cut func()) (stop func()) {
	for i := range f.answers {
		if f.answers[i].Err == nil && len(f.answers[i].ReadAnswer.Batches) > 0 {
			return f.answers[i].CutWhenWanted(cut) // they share it
		}
	}
	return func() {}
}

// fill groups the partitions to be included by topic, keeping their order.
func (f *fetchReply) fill(parts []askedPartition, include []bool) *fetchReply {
	resp := f.FetchResponse
	for i, p := range parts {
		if !include[i] {
			continue
		}
		a := &f.answers[i]
		n := len(resp.Topics)
		if n == 0 || resp.Topics[n-1].Topic != p.topic || resp.Topics[n-1].TopicID != p.id {
			t := kmsg.NewFetchResponseTopic()
			t.Topic, t.TopicID = p.topic, p.id
			resp.Topics = append(resp.Topics, t)
			n++
		}
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.Partition, rp.ErrorCode = p.number, a.code
		rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = a.HighWatermark, a.LastStable, a.LogStart
		rp.PreferredReadReplica = -1
		if a.Diverging != nil {
			rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = a.Diverging.Epoch, a.Diverging.EndOffset
		}
		resp.Topics[n-1].Partitions = append(resp.Topics[n-1].Partitions, rp)
		f.batches = append(f.batches, a.Batches)
	}
	return f
}

// spliced is a response that is written in pieces, which are released afterwards.
type spliced interface {
	kmsg.Response
	splice(w *splicer)
	encoded()
	cutWhenWanted(cut func()) (stop func())
	release()
}

// splice writes what FetchResponse.AppendTo would for v4–18, with the batches in
// their places (TestFetchReplyIsKmsgs compares the two).
func (f *fetchReply) splice(w *splicer) {
	v, flexible := f.Version, f.Version >= 12
	w.int32(f.ThrottleMillis)
	if v >= 7 {
		w.int16(f.ErrorCode)
		w.int32(f.SessionID)
	}
	w.count(len(f.Topics), flexible)
	next := 0
	for i := range f.Topics {
		t := &f.Topics[i]
		if v >= 13 {
			w.b = append(w.b, t.TopicID[:]...)
		} else {
			w.text(t.Topic, flexible)
		}
		w.count(len(t.Partitions), flexible)
		for j := range t.Partitions {
			f.splicePartition(w, &t.Partitions[j], f.batches[next])
			next++
		}
		w.noTags(flexible)
	}
	w.noTags(flexible)
}

func (f *fetchReply) splicePartition(w *splicer, p *kmsg.FetchResponseTopicPartition, batches [][]byte) {
	v, flexible := f.Version, f.Version >= 12
	w.int32(p.Partition)
	w.int16(p.ErrorCode)
	w.int64(p.HighWatermark)
	w.int64(p.LastStableOffset)
	if v >= 5 {
		w.int64(p.LogStartOffset)
	}
	w.count(-1, flexible) // aborted transactions: none
	if v >= 11 {
		w.int32(p.PreferredReadReplica)
	}
	size := 0
	for _, b := range batches {
		size += len(b)
	}
	w.count(size, flexible)
	for _, b := range batches {
		w.bytes(b)
	}
	if d := p.DivergingEpoch; flexible && (d.Epoch != -1 || d.EndOffset != -1) {
		w.b = append(w.b, 1, 0, 13) // one tag, number 0, 13 bytes
		w.int32(d.Epoch)
		w.int64(d.EndOffset)
		w.b = append(w.b, 0)
	} else {
		w.noTags(flexible)
	}
}

// splicer collects a frame as its own bytes with foreign ones between them.
type splicer struct {
	b    []byte // own bytes; those before cut are in bufs
	cut  int
	bufs net.Buffers
}

// copiedBelow is the size up to which copying a piece is cheaper than one more
// entry in the vector of writes.
const copiedBelow = 4 << 10

// bytes adds b, which is copied only if it is small.
func (w *splicer) bytes(b []byte) {
	if len(b) < copiedBelow {
		w.b = append(w.b, b...)
		return
	}
	w.flush()
	w.bufs = append(w.bufs, b)
}

// flush moves the own bytes so far to bufs. Growing w.b later leaves them be.
func (w *splicer) flush() {
	if w.cut < len(w.b) {
		w.bufs = append(w.bufs, w.b[w.cut:len(w.b):len(w.b)])
		w.cut = len(w.b)
	}
}

func (w *splicer) int16(v int16) { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)) }
func (w *splicer) int32(v int32) { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *splicer) int64(v int64) { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }

// count adds the length of an array or of bytes; −1 is null.
func (w *splicer) count(n int, flexible bool) {
	if flexible {
		w.b = binary.AppendUvarint(w.b, uint64(n+1))
	} else {
		w.int32(int32(n))
	}
}

func (w *splicer) text(s string, flexible bool) {
	if flexible {
		w.b = binary.AppendUvarint(w.b, uint64(len(s)+1))
	} else {
		w.int16(int16(len(s)))
	}
	w.b = append(w.b, s...)
}

func (w *splicer) noTags(flexible bool) {
	if flexible {
		w.b = append(w.b, 0)
	}
}
