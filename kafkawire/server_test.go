package kafkawire

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestShutdownAnswersWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.fake.hold = true
		d.fake.topic("quiet", 1)
		waiting, producing := d.dial(), d.dial()
		fetch := fetchRequest(11, "quiet", 0, 5*time.Minute)
		waiting.send(fetch)
		produce := produceRequest(9, -1, "t", batch(nil, record{value: "x"}))
		producing.send(produce)
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- d.Shutdown(context.Background()) }()
		if got := fetched(waiting.receive(fetch, 1).(*kmsg.FetchResponse)); got.ErrorCode != codeNotLeaderOrFollower {
			t.Errorf("the waiting Fetch got code %d", got.ErrorCode)
		}
		waiting.closed()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Shutdown did not wait for the append: %v", err)
		default:
		}
		d.fake.release()
		if got := produced(producing.receive(produce, 1).(*kmsg.ProduceResponse)); got.ErrorCode != 0 {
			t.Errorf("the Produce under way got code %d", got.ErrorCode)
		}
		producing.closed()
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

func TestShutdownEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.fake.hold = true
		c := d.dial()
		c.send(produceRequest(9, -1, "t", batch(nil, record{value: "x"})))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if err := d.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.ConnectionsMax = 2 })
		first, second := d.dial(), d.dial()
		d.dial().closed()
		meta := at(kmsg.NewPtrMetadataRequest(), 9)
		ask[*kmsg.MetadataResponse](second, meta)
		_ = first.conn.Close()
		synctest.Wait()
		ask[*kmsg.MetadataResponse](d.dial(), meta)
	})
}

func TestConnectionsPerAddressAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.ConnectionsPerIPMax = 1 })
		ask[*kmsg.MetadataResponse](d.dial(), at(kmsg.NewPtrMetadataRequest(), 9))
		d.dial().closed()
		if log := d.wholeLog(); !strings.Contains(log, "ConnectionsPerIPMax") {
			t.Errorf("the log does not say why: %s", log)
		}
	})
}

func TestServeSurvivesAcceptErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(t.Context(), Config{Engine: newFake()})
		if err != nil {
			t.Fatal(err)
		}
		l := &failingListener{pipes: newPipes(), errs: []error{&net.DNSError{IsTimeout: true}, &net.DNSError{IsTimeout: true}}}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		c := &client{t: t, conn: l.dial(), fmt: kmsg.NewRequestFormatter()}
		ask[*kmsg.MetadataResponse](c, at(kmsg.NewPtrMetadataRequest(), 9))
		_ = c.conn.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// failingListener fails a few times before it works.
type failingListener struct {
	*pipes
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return l.pipes.Accept()
}

// A shutdown between a failed accept and the next one ends it, too.
func TestShutdownWhileAcceptFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s *Server
		down := make(chan error, 1)
		log := &onRecord{f: func(msg string) {
			if strings.HasPrefix(msg, "accepting a connection failed") {
				go func() { down <- s.Shutdown(context.Background()) }()
				synctest.Wait()
			}
		}}
		s, err := New(t.Context(), Config{Engine: newFake(), Logger: slog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() {
			served <- s.Serve(&failingListener{pipes: newPipes(), errs: []error{&net.DNSError{IsTimeout: true}}})
		}()
		if err := errors.Join(<-down, <-served); err != nil {
			t.Error(err)
		}
	})
}

// onRecord is a log that calls f with each message.
type onRecord struct {
	slog.Handler
	f func(msg string)
}

func (l *onRecord) Enabled(context.Context, slog.Level) bool { return true }
func (l *onRecord) Handle(_ context.Context, r slog.Record) error {
	l.f(r.Message)
	return nil
}

func TestServeEndsWithTheContextOfNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		s, err := New(ctx, Config{Engine: newFake()})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(newPipes()) }()
		synctest.Wait()
		end()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
