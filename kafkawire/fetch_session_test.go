package kafkawire

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// sessionClient fetches through a session from the partitions of one topic.
type sessionClient struct {
	*client
	d     *door
	id    int32
	epoch int32
}

// fetch sends a fetch that names the partitions (number: offset), forgets
// others, and describes the reply: code, then number and values of each
// partition it holds.
func (s *sessionClient) fetch(t *testing.T, version int16, topic string, offsets map[int32]int64, forget ...int32) string {
	t.Helper()
	req := fetchRequest(version, topic, 0, 0)
	id := [16]byte{}
	if version >= 13 {
		id = s.d.fake.queues[topic].TopicID
		req.Topics[0].Topic, req.Topics[0].TopicID = "", id
	}
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	part := req.Topics[0].Partitions[0]
	req.Topics[0].Partitions = nil
	for n := range int32(10) {
		if offset, ok := offsets[n]; ok {
			part.Partition, part.FetchOffset = n, offset
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
		}
	}
	if len(offsets) == 0 {
		req.Topics = nil
	}
	if len(forget) > 0 {
		f := kmsg.NewFetchRequestForgottenTopic()
		f.Partitions = forget
		if f.Topic = topic; version >= 13 {
			f.Topic, f.TopicID = "", id
		}
		req.ForgottenTopics = append(req.ForgottenTopics, f)
	}
	resp := ask[*kmsg.FetchResponse](s.client, req)
	if resp.ErrorCode == 0 {
		s.id = resp.SessionID
		s.epoch++
	}
	out := fmt.Sprint(resp.ErrorCode, ":")
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			out += fmt.Sprintf(" %d[%s]", p.Partition, recordValues(t, p))
			if p.ErrorCode != 0 {
				out += fmt.Sprintf("!%d", p.ErrorCode)
			}
		}
	}
	return out
}

func TestSessionRepliesHoldOnlyNews(t *testing.T) {
	t.Parallel()
	for _, version := range []int16{7, 12, 13, 18} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			t.Parallel()
			d := open(t)
			d.fake.topic("t", 4)
			s := &sessionClient{client: d.dial(), d: d}
			f := func(what, want string, offsets map[int32]int64, forget ...int32) {
				t.Helper()
				if got := s.fetch(t, version, "t", offsets, forget...); got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
			f("a full fetch", "0: 0[] 1[] 2[]", map[int32]int64{0: 0, 1: 0, 2: 0})
			if s.id == 0 {
				t.Fatal("no session was made")
			}
			f("no news", "0:", nil)
			d.put("t", 1, "a")
			f("a record", "0: 1[a]", nil)
			f("not yet read on, so again", "0: 1[a]", nil)
			f("read on", "0:", map[int32]int64{1: 1})
			d.put("t", 0, "b")
			d.put("t", 3, "c")
			f("a new partition", "0: 0[b] 3[c]", map[int32]int64{3: 0})
			d.put("t", 2, "d")
			f("forgotten", "0: 2[d] 0[b]", nil, 3)
			f("an error", "0: 2[d] 0[b] 9[]!3", map[int32]int64{9: 0})
			f("the error stays", "0: 9[]!3 2[d] 0[b]", nil)
			f("all forgotten: closed", "0:", nil, 0, 1, 2, 9)
			if s.id != 0 {
				t.Errorf("an empty session stays: %d", s.id)
			}
			if n := len(d.sessions.byID); n != 0 || d.sessions.partitions != 0 {
				t.Errorf("%d sessions with %d partitions are left", n, d.sessions.partitions)
			}
		})
	}
}

func TestSessionErrors(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 2)
	all := map[int32]int64{0: 0, 1: 0}
	s := &sessionClient{client: d.dial(), d: d}
	f := func(what string, id, epoch int32, version int16, offsets map[int32]int64, want string) {
		t.Helper()
		s.id, s.epoch = id, epoch
		if got := s.fetch(t, version, "t", offsets); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	f("a session nobody made", 12345, 1, 12, nil, "70:")
	f("an epoch without a session", 0, 1, 12, all, "70:")
	f("made", 0, 0, 12, all, "0: 0[] 1[]")
	id := s.id
	f("its epoch", id, 1, 12, nil, "0:")
	f("the same epoch again", id, 1, 12, nil, "71:")
	f("a later epoch", id, 3, 12, nil, "71:")
	f("ids in a session of names", id, 2, 13, nil, "106:")
	f("still there after all that", id, 2, 12, nil, "0:")
	f("no session asked for", 0, -1, 12, all, "0: 0[] 1[]")
	if s.id != 0 {
		t.Errorf("session %d was given to one that wants none", s.id)
	}
	f("closed", id, -1, 12, nil, "0:")
	f("gone", id, 3, 12, nil, "70:")

	// On another connection, and after the connection it was made on.
	f("made again", 0, 0, 12, all, "0: 0[] 1[]")
	id = s.id
	_ = s.conn.Close()
	s.client = d.dial()
	f("resumed elsewhere", id, 1, 12, nil, "0:")
	f("made in its place", id, 0, 12, all, "0: 0[] 1[]")
	if s.id == id || s.id == 0 || len(d.sessions.byID) != 1 {
		t.Errorf("session %d in place of %d; %d sessions", s.id, id, len(d.sessions.byID))
	}
}

func TestSessionOfRecreatedTopicForgetsIt(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	s := &sessionClient{client: d.dial(), d: d}
	if got := s.fetch(t, 13, "t", map[int32]int64{0: 0}); got != "0: 0[]" {
		t.Fatal(got)
	}
	if _, err := d.fake.DeleteQueue(t.Context(), queen.QueueRef{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	d.fake.topic("t", 1)
	d.put("t", 0, "new")
	if got := s.fetch(t, 13, "t", nil); got != "0: 0[]!100" {
		t.Errorf("the old id in the session: %q", got)
	}
}

// The end of an error is news, even where nothing else has changed.
func TestSessionTellsTheEndOfAnError(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	d.put("t", 0, "a")
	c := d.dial()
	first := fetchRequest(11, "t", 1, 0)
	first.SessionEpoch = 0
	id := ask[*kmsg.FetchResponse](c, first).SessionID
	for i, epoch := range []int32{6, 7, 7} { // fenced, the right one, no news
		req := fetchRequest(11, "t", 1, 0)
		req.SessionID, req.SessionEpoch = id, int32(i+1)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		got := ask[*kmsg.FetchResponse](c, req)
		if want := []int{1, 1, 0}[i]; len(got.Topics) != want {
			t.Fatalf("fetch %d at epoch %d: %d topics, want %d", i, epoch, len(got.Topics), want)
		}
		if want := []int16{74, 0, 0}[i]; len(got.Topics) > 0 && fetched(got).ErrorCode != want {
			t.Errorf("fetch %d at epoch %d: code %d, want %d", i, epoch, fetched(got).ErrorCode, want)
		}
	}
}

// A partition with much to read does not keep the others' turn.
func TestSessionTurnsPartitions(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 3)
	for n := range int32(3) {
		d.put("t", n, strings.Repeat("x", 50))
	}
	c := d.dial()
	req := fetchRequest(11, "t", 0, 0)
	req.SessionEpoch, req.MaxBytes = 0, 1
	part := req.Topics[0].Partitions[0]
	req.Topics[0].Partitions = nil
	for n := range int32(3) {
		part.Partition = n
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
	}
	resp := ask[*kmsg.FetchResponse](c, req)
	var served []int32
	for epoch := range int32(6) {
		next := fetchRequest(11, "t", 0, 0)
		next.Topics, next.SessionID, next.SessionEpoch, next.MaxBytes = nil, resp.SessionID, epoch+1, 1
		for _, p := range ask[*kmsg.FetchResponse](c, next).Topics[0].Partitions {
			if len(p.RecordBatches) > 0 {
				served = append(served, p.Partition)
			}
		}
	}
	if got := fmt.Sprint(served); got != "[0 1 2 0 1 2]" {
		t.Errorf("served %s", got)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	cache := newSessionCache(2, 100)
	now := time.Unix(1000, 0)
	create := func(partitions int) int32 {
		t.Helper()
		req := fetchRequest(11, "t", 0, 0)
		req.SessionEpoch = 0
		for n := int32(1); n < int32(partitions); n++ {
			p := req.Topics[0].Partitions[0]
			p.Partition = n
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		}
		plan, code := cache.begin(req, now, func(error) {})
		if code != 0 {
			t.Fatal(code)
		}
		id, _ := plan.finish(make([]partitionAnswer, len(plan.asked)), now)
		return id
	}
	first, second := create(10), create(10)
	if first == 0 || second == 0 || first == second {
		t.Fatalf("sessions %d and %d", first, second)
	}
	if id := create(10); id != 0 {
		t.Errorf("a third session %d while both are in use", id)
	}
	now = now.Add(time.Minute)
	use := fetchRequest(11, "t", 0, 0)
	use.Topics, use.SessionID, use.SessionEpoch = nil, first, 1
	used, code := cache.begin(use, now, func(error) {})
	if code != 0 {
		t.Fatal(code)
	}
	used.end()
	now = now.Add(sessionIdleMin - time.Minute)
	if id := create(10); id == 0 || cache.byID[first] == nil || cache.byID[second] != nil {
		t.Errorf("session %d did not take the place of the one idle for longest", id)
	}
	now = now.Add(time.Hour)
	if id := create(101); id != 0 {
		t.Errorf("session %d is wider than all may be", id)
	}
	if id := create(95); id == 0 || len(cache.byID) != 1 || cache.partitions != 95 {
		t.Errorf("session %d, %d sessions, %d partitions", id, len(cache.byID), cache.partitions)
	}
}

// One session waits once, however many connections it is used from; who closes it
// ends that. What waits counts until then.
func TestSessionHasOneFetchUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 3)
		waiting, other := d.dial(), d.dial()
		next := func(id, epoch int32) *kmsg.FetchRequest {
			req := fetchRequest(12, "t", 0, 30*time.Second)
			if req.SessionID, req.SessionEpoch = id, epoch; epoch > 0 {
				req.Topics = nil
			}
			return req
		}
		first := next(0, 0)
		first.MaxWaitMillis = 0
		id := ask[*kmsg.FetchResponse](waiting, first).SessionID
		req := next(id, 1)
		began := time.Now()
		corr := waiting.send(req)
		synctest.Wait()
		for range 3 {
			if got := ask[*kmsg.FetchResponse](other, next(id, 2)); got.ErrorCode != codeInvalidFetchSessionEpoch || time.Since(began) != 0 {
				t.Errorf("a second one: code %d after %v, want %d at once", got.ErrorCode, time.Since(began), codeInvalidFetchSessionEpoch)
			}
		}
		d.put("t", 0, "a")
		if got := waiting.receive(req, corr).(*kmsg.FetchResponse); got.ErrorCode != 0 || recordValues(t, fetched(got)) != "a" {
			t.Errorf("the one that waited: %+v", got)
		}

		// The next one, on the other connection, and then its session is replaced.
		req = next(id, 2)
		req.Topics = next(0, 0).Topics
		req.Topics[0].Partitions[0].FetchOffset = 1
		corr = other.send(req)
		synctest.Wait()
		replace := next(id, 0)
		replace.MaxWaitMillis = 0
		if got := ask[*kmsg.FetchResponse](waiting, replace); got.ErrorCode != 0 || got.SessionID == 0 || got.SessionID == id {
			t.Errorf("in its place: %+v", got)
		}
		if got := other.receive(req, corr).(*kmsg.FetchResponse); got.ErrorCode != codeFetchSessionIDNotFound || time.Since(began) != 0 {
			t.Errorf("the one whose session was replaced: code %d after %v, want %d at once", got.ErrorCode, time.Since(began), codeFetchSessionIDNotFound)
		}
		synctest.Wait()
		if n := d.sessions.partitions; n != 1 || len(d.sessions.byID) != 1 {
			t.Errorf("%d sessions with %d partitions are left, want 1 with 1", len(d.sessions.byID), n)
		}
	})
}

// A session whose request is under way counts, though it is forgotten.
func TestForgottenSessionsCountWhileTheyWait(t *testing.T) {
	t.Parallel()
	cache := newSessionCache(2, 100)
	now := time.Unix(1000, 0)
	req := fetchRequest(11, "t", 0, 0)
	req.SessionEpoch = 0
	plan, _ := cache.begin(req, now, func(error) {})
	id, _ := plan.finish(make([]partitionAnswer, 1), now)
	use := fetchRequest(11, "t", 0, 0)
	use.Topics, use.SessionID, use.SessionEpoch = nil, id, 1
	var stopped error
	waiting, _ := cache.begin(use, now, func(err error) { stopped = err })
	if cache.evict(now.Add(time.Hour)) {
		t.Error("a session in use was evicted")
	}
	req.SessionID, req.SessionEpoch = id, epochFinal
	if _, code := cache.begin(req, now, nil); code != codeNone || !errors.Is(stopped, errSessionClosed) || cache.partitions != 1 {
		t.Errorf("closed: code %d, the one under way was told %v, %d partitions count; want it told, and 1", code, stopped, cache.partitions)
	}
	if waiting.end(); cache.partitions != 0 || len(cache.byID) != 0 {
		t.Errorf("%d sessions with %d partitions are left", len(cache.byID), cache.partitions)
	}
}

func TestSessionEpochWraps(t *testing.T) {
	t.Parallel()
	cache := newSessionCache(2, 100)
	req := fetchRequest(11, "t", 0, 0)
	req.SessionEpoch = 0
	plan, _ := cache.begin(req, time.Unix(0, 0), func(error) {})
	id, _ := plan.finish(make([]partitionAnswer, 1), time.Unix(0, 0))
	cache.byID[id].epoch = math.MaxInt32
	req.Topics, req.SessionID, req.SessionEpoch = nil, id, math.MaxInt32
	if _, code := cache.begin(req, time.Unix(0, 0), func(error) {}); code != 0 {
		t.Fatal(code)
	}
	if got := cache.byID[id].epoch; got != 1 {
		t.Errorf("after the last epoch comes %d, want 1", got)
	}
}
