package queen

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"queenmq/store/storetest"
)

// Answers that are not read keep their memory, so the next ones are smaller, and
// then wait; a first batch is given whole.
func TestAnswersGetSmallerAsTheirMemoryFills(t *testing.T) {
	t.Parallel()
	const room, size = 4 << 20, 100 << 10
	e := openEngine(t, storetest.New(t), func(c *Config) { c.AnswerBytesMax = room })
	createTopic(t, e, "t", 1)
	value := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for range 40 {
		appendBatch(t, e, at("t", 0), valuesBatch(t, codecNone, nil, value))
	}
	read := func(ctx context.Context) ([]ReadAnswer, error) {
		return e.Read(ctx, ReadRequest{
			Items:    []ReadItem{{Partition: at("t", 0), MaxBytes: 64 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1}},
			MaxBytes: 64 << 20, MinBytes: 64 << 20,
		})
	}
	free := e.answers.left
	var held [][]ReadAnswer
	given, last := 0, room
	for free() > 0 {
		a, err := read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, b := range a[0].Batches {
			n += len(b)
		}
		if n == 0 || n > max(last, 2*size) {
			t.Fatalf("answer %d has %d bytes after one of %d", len(held), n, last)
		}
		held, given, last = append(held, a), given+n, n
	}
	if given > room+2*size || len(held) < 2*answerRoomShare {
		t.Errorf("%d answers of %d bytes fill %d", len(held), given, room)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that left while it waited: %v", err)
	}
	waited := make(chan error)
	go func() {
		a, err := read(t.Context())
		if err == nil && len(a[0].Batches) == 0 {
			err = errors.New("nothing was given")
		}
		held = append(held, a)
		waited <- err
	}()
	for !e.answers.wanted() {
	}
	for _, a := range held[:len(held)/2] {
		a[0].Release()
	}
	if err := <-waited; err != nil {
		t.Errorf("after memory came back: %v", err)
	}
	for _, a := range held {
		a[0].Release()
		a[0].Release() // twice is once
	}
	if got := free(); got != room {
		t.Errorf("%d of %d bytes are free in the end", got, room)
	}
}

// A batch of a few KB may hold very much; what one answer unpacks is bounded all the
// same, and nothing is left out.
func TestWhatOneAnswerUnpacksIsBounded(t *testing.T) {
	t.Parallel()
	const room, size, batches = 1 << 20, 60 << 10, 6
	e := openEngine(t, storetest.New(t), func(c *Config) { c.AnswerBytesMax = room })
	createTopic(t, e, "t", 1)
	for range batches {
		appendBatch(t, e, at("t", 0), valuesBatch(t, codecGzip, nil, make([]byte, size), make([]byte, size)))
	}
	unpacked := func(what string, msgs []StoredMessage, next int64) int64 {
		t.Helper()
		n := 0
		for _, m := range msgs {
			if m.Offset != next || len(m.Value) != size {
				t.Fatalf("%s has offset %d of %d bytes, want %d of %d", what, m.Offset, len(m.Value), next, size)
			}
			next++
			n += len(m.Value)
		}
		if len(msgs) == 0 || n > room/answerRoomShare {
			t.Fatalf("%s unpacked %d bytes of %d messages at %d", what, n, len(msgs), next)
		}
		return next
	}
	for next := int64(0); next < 2*batches; {
		var held AnswerRoom
		got, err := e.Fetch(t.Context(), FetchRequest{
			Items: []FetchItem{{Queue: "t", Partition: "0", Offset: next, MaxBytes: 8 << 20}}, MaxBytes: 8 << 20, Room: &held,
		})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got[0].Err)
		}
		next = unpacked("a fetch", got[0].Messages, next)
		if got := e.answers.left(); got > room-size {
			t.Errorf("%d of %d bytes are free beside an answer", got, room)
		}
		held.Release()
	}
	for _, auto := range []bool{false, true} {
		r := PopRequest{Queue: "t", Group: "g", Batch: 100, AutoAck: auto}
		if auto {
			r.Group = "auto"
		}
		for next := int64(0); next < 2*batches; {
			var held AnswerRoom
			r.Room = &held
			p := popBatch(t, e, r)
			next = unpacked("a pop", p.Messages, next)
			if got := e.answers.left(); got > room-size {
				t.Errorf("%d of %d bytes are free beside an answer", got, room)
			}
			held.Release()
			r.Room = nil
			if !auto {
				ackAll(t, e, p, AckCompleted)
			}
		}
		if p := popBatch(t, e, r); len(p.Messages) > 0 {
			t.Errorf("popped %d more", len(p.Messages))
		}
	}
	if got := e.answers.left(); got != room {
		t.Errorf("%d of %d bytes are free in the end", got, room)
	}
}

// What a read that fails, or is of messages that nobody holds, took is given back.
func TestReadsThatAreOverHoldNothing(t *testing.T) {
	t.Parallel()
	l, db := openLossy(t)
	createTopic(t, openEngine(t, storetest.Open(t, db)), "t", 1)
	e := openEngine(t, db)
	appendBatch(t, e, at("t", 0), kafkaBatch(t, 2000))
	room := e.answers.left()
	if got := fetchAll(t, e, "t", "0"); len(got) != 2000 {
		t.Fatalf("%d messages", len(got))
	}
	if got := e.answers.left(); got != room {
		t.Errorf("%d of %d bytes are free after a fetch", got, room)
	}
	e.tail.forgetAll()  // so that the database is asked
	const offset = 1234 // as it lies among the arguments of a read
	l.lose(string(binary.BigEndian.AppendUint64([]byte{0, 0, 0, 8}, offset)))
	_, err := e.Read(t.Context(), ReadRequest{
		Items: []ReadItem{{Partition: at("t", 0), Offset: offset, MaxBytes: 1 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1}}, MaxBytes: 1 << 20,
	})
	if l.count() != 1 || !errors.Is(err, ErrUnavailable) {
		t.Fatalf("%d answers were lost; %v", l.count(), err)
	}
	if got := e.answers.left(); got != room {
		t.Errorf("%d of %d bytes are free after a read that failed", got, room)
	}
	gone, hangUp := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := e.Read(gone, ReadRequest{
			Items:    []ReadItem{{Partition: at("t", 0), MaxBytes: 1 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1}},
			MinBytes: 1 << 20, MaxBytes: 1 << 20, MaxWait: time.Hour,
		})
		failed <- err
	}()
	e.untilWaiting(t)
	hangUp()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that left: %v", err)
	}
	if got := e.answers.left(); got != room {
		t.Errorf("%d of %d bytes are free after a reader left", got, room)
	}
}

// left is what is free.
func (r *answerRoom) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free
}

func TestAnswersThatAreNotReadAreCutWhereOthersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newAnswerRoom(answerRoomMin)
		var a, b, c AnswerRoom
		if _, err := a.grant(t.Context(), r, 1<<20); err != nil {
			t.Fatal(err)
		}
		cut := make(chan struct{})
		stop := a.CutWhenWanted(func() { close(cut) })
		go func() {
			<-cut
			a.Release()
		}()
		<-time.After(time.Hour)
		select {
		case <-cut:
			t.Fatal("cut although nobody waits")
		default:
		}
		if n, err := b.grant(t.Context(), r, 1<<20); err != nil || n == 0 {
			t.Errorf("granted %d, %v beside an answer that nobody reads", n, err)
		}
		stop()
		if _, err := c.grant(t.Context(), r, 1<<20); !errors.Is(err, ErrUnavailable) {
			t.Errorf("where nothing comes back: %v, want ErrUnavailable", err)
		}
		b.Release()
		b.Release() // twice is once
		if got := r.left(); got != answerRoomMin {
			t.Errorf("%d of %d bytes are free in the end", got, answerRoomMin)
		}
	})
}

// Who is told that an answer is over may go on with its connection: a cut under way
// ends first, and none comes after.
func TestAnAnswerThatIsOverIsNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := AnswerRoom{room: &answerRoom{freed: make(chan struct{})}} // somebody waits
		cutting, goOn, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
		stop := a.CutWhenWanted(func() {
			close(cutting)
			<-goOn
		})
		<-cutting
		go func() {
			stop()
			close(stopped)
		}()
		for range 1000 {
			runtime.Gosched()
		}
		select {
		case <-stopped:
			t.Error("stop returned while the answer is being cut")
		default:
		}
		close(goOn)
		<-stopped
	})
	synctest.Test(t, func(t *testing.T) {
		a := AnswerRoom{room: &answerRoom{freed: make(chan struct{})}}
		for range 1000 { // the answer is over in the moment in which it would be cut
			var over atomic.Bool
			stop := a.CutWhenWanted(func() {
				if over.Load() {
					t.Error("cut after stop has returned")
				}
			})
			<-time.After(answerRoomPatience)
			stop()
			over.Store(true)
			synctest.Wait()
		}
	})
}
