package kafkawire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A conversation is a file of testdata/wire: comments, the topics there are, the
// frames a client sent on one connection, and the bytes we answer each with.
//
//	# kcat 1.7.1, one message
//	topic events 1 first second
//	> Metadata v4 corr 2
//	  00000015 …
//	< 0000004a …
//
// The client's frames were recorded or made by kmsg and are the truth; with
// -update the answers are written anew, and the diff is to be read.
type conversation struct {
	path   string
	intro  []string // comments and topics, as they stand
	frames [][]byte
	want   [][]byte // empty: no answer
}

func readConversation(t *testing.T, path string) *conversation {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &conversation{path: path}
	var into *[]byte
	for n, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		text := line
		switch {
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "topic "):
			c.intro = append(c.intro, line)
			continue
		case strings.HasPrefix(line, ">"):
			c.frames, c.want = append(c.frames, nil), append(c.want, nil)
			into = &c.frames[len(c.frames)-1]
			continue
		case strings.HasPrefix(line, "<"):
			into, text = &c.want[len(c.want)-1], line[1:]
		}
		part, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil || into == nil {
			t.Fatalf("%s:%d: %q: %v", path, n+1, line, err)
		}
		*into = append(*into, part...)
	}
	return c
}

// topics makes the topics a conversation starts with.
func (c *conversation) topics(t *testing.T, d *door) {
	for _, line := range c.intro {
		f := strings.Fields(line)
		if f[0] != "topic" {
			continue
		}
		n, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		d.fake.topic(f[1], n)
		d.put(f[1], 0, f[3:]...)
	}
}

// play sends the frames and collects the answers.
func (c *conversation) play(t *testing.T) (got [][]byte) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		id := int32(100)
		d.sessions.newID = func() int32 { id++; return id }
		c.topics(t, d)
		conn := d.dial()
		for _, frame := range c.frames {
			if _, err := conn.conn.Write(frame); err != nil {
				t.Fatalf("%s: %v", c.path, err)
			}
			if noAnswer(frame) {
				got = append(got, nil)
				continue
			}
			corr, rest, err := conn.frame()
			if err != nil {
				t.Fatalf("%s: no answer to frame %d: %v", c.path, len(got)+1, err)
			}
			b := binary.BigEndian.AppendUint32(nil, uint32(len(rest)+4))
			b = binary.BigEndian.AppendUint32(b, uint32(corr))
			got = append(got, append(b, rest...))
		}
		synctest.Wait()
	})
	return got
}

// noAnswer says whether a frame is a Produce with acks=0.
func noAnswer(frame []byte) bool {
	if p := parsePrefix([prefixBytes]byte(frame)); p.key != 0 {
		return false
	}
	r := decodeFrame(frame)
	return r != nil && r.(*kmsg.ProduceRequest).Acks == 0
}

// decodeFrame decodes a client's frame, nil if that cannot be done.
func decodeFrame(frame []byte) kmsg.Request {
	p := parsePrefix([prefixBytes]byte(frame))
	req := kmsg.RequestForKey(p.key)
	req.SetVersion(p.version)
	_, body, err := parseHeader(frame[prefixBytes:], req.IsFlexible())
	if err != nil || req.ReadFrom(body) != nil {
		return nil
	}
	return req
}

func (c *conversation) write(t *testing.T, answers [][]byte) {
	t.Helper()
	var b strings.Builder
	for _, line := range c.intro {
		b.WriteString(line + "\n")
	}
	for i, frame := range c.frames {
		p := parsePrefix([prefixBytes]byte(frame))
		fmt.Fprintf(&b, "> %s v%d corr %d\n", kmsg.NameForKey(p.key), p.version, p.correlationID)
		writeHex(&b, " ", frame)
		writeHex(&b, "<", answers[i])
	}
	if err := os.WriteFile(c.path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeHex(b *strings.Builder, mark string, data []byte) {
	for at := 0; at < len(data); at += 32 {
		fmt.Fprintf(b, "%s %x\n", mark, data[at:min(at+32, len(data))])
		if mark == "<" {
			mark = " "
		}
	}
}

// TestConversations replays every file of testdata/wire.
func TestConversations(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "wire")
	if *update {
		writeSmallest(t, dir)
		writeRebalance(t, dir)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no conversations in %s: %v", dir, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			c := readConversation(t, path)
			got := c.play(t)
			if *update {
				c.write(t, got)
				return
			}
			for i := range got {
				if !bytes.Equal(got[i], c.want[i]) {
					t.Errorf("%s: the answer to frame %d has changed:\n got %x\nwant %x", path, i+1, got[i], c.want[i])
				}
			}
		})
	}
}

// writeRebalance makes a conversation in which a member of a consumer group lets
// go of a partition to another one.
func writeRebalance(t *testing.T, dir string) {
	t.Helper()
	topic := (&door{t: t, fake: newFake()}).fake.topic("t", 2).TopicID
	beat := func(member string, epoch int32, owned ...int32) *kmsg.ConsumerGroupHeartbeatRequest {
		r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.MemberEpoch = 1, "g", member, epoch
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if epoch == 0 {
			r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 60_000, []string{"t"}
		}
		if len(owned) > 0 {
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: topic, Partitions: owned}}
		}
		return r
	}
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Version, describe.Groups, describe.IncludeAuthorizedOperations = 1, []string{"g", "other"}, true
	c := &conversation{
		path:  filepath.Join(dir, "consumer-group-rebalance.txt"),
		intro: []string{"# two members of a consumer group, made by kmsg v1.15.1", "topic t 2"},
	}
	for i, req := range []kmsg.Request{
		beat("m1", 0), beat("m2", 0), beat("m1", 1, 0, 1), describe,
		beat("m1", 1, 0), beat("m2", 2), beat("m1", 3, 0), beat("m1", -1), beat("m2", 2, 1), beat("m2", -1), describe,
	} {
		c.frames = append(c.frames, kmsg.NewRequestFormatter(kmsg.FormatterClientID("golden")).AppendRequest(nil, req, int32(i+1)))
	}
	c.write(t, make([][]byte, len(c.frames)))
}

// writeSmallest makes one conversation for each request in its lowest and its
// highest version. Groups have transcripts of their own.
func writeSmallest(t *testing.T, dir string) {
	t.Helper()
	d := &door{t: t, fake: newFake()}
	d.fake.topic("t", 1)
	for _, a := range table(Config{}.withDefaults()) {
		if a.key >= 8 && a.key <= 16 {
			continue
		}
		for _, version := range []int16{a.min, a.max} {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(version)
			fill(d, req)
			c := &conversation{
				path:  filepath.Join(dir, fmt.Sprintf("%s-v%d.txt", strings.ToLower(a.name), version)),
				intro: []string{fmt.Sprintf("# %s v%d, the smallest sensible request, made by kmsg v1.15.1", a.name, version), "topic t 1 first second"},
			}
			c.frames = [][]byte{kmsg.NewRequestFormatter(kmsg.FormatterClientID("golden")).AppendRequest(nil, req, 7)}
			c.write(t, make([][]byte, 1))
		}
	}
}
