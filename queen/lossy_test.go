package queen

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"queenmq/store"
	"queenmq/store/storetest"
)

// lossy stands between an engine and PostgreSQL. The answer of the next call
// whose arguments hold what it was armed with never arrives: what the call did
// is committed, and its caller's connection is gone. Or the call is late: its caller's
// connection is gone, and PostgreSQL gets it when the test says.
type lossy struct {
	target string

	mu    sync.Mutex
	armed []byte
	late  *lateCall // what is armed is to be late
	lost  int
	seen  map[string]int // what is watched for, in how many pieces of what was sent
}

// watch counts the pieces of what is sent that hold text.
func (l *lossy) watch(text string) (count func() int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]int{}
	}
	l.seen[text] = 0
	return func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.seen[text]
	}
}

// openLossy opens a database through a lossy connection, on a schema of its own.
func openLossy(t *testing.T) (*lossy, *store.DB) {
	t.Helper()
	cfg := storetest.Config(t)
	dir, err := os.MkdirTemp("", "lossy") // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var config struct{ host string }
	for _, f := range bytes.Fields([]byte(cfg.URL)) {
		if host, is := bytes.CutPrefix(f, []byte("host=")); is {
			config.host = string(host)
		}
	}
	const socket = ".s.PGSQL.5432"
	l := &lossy{target: filepath.Join(config.host, socket)}
	ln, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { l.carry(c) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	cfg.URL = string(bytes.Replace([]byte(cfg.URL), []byte("host="+config.host), []byte("host="+dir), 1))
	return l, storetest.OpenConfig(t, cfg)
}

// lateCall is a call that its caller has given up and PostgreSQL does not have yet.
type lateCall struct{ deliver, answered chan struct{} }

// lose arms it.
func (l *lossy) lose(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = []byte(text)
}

// delay arms it to hold a call back. What it returns gives the call to PostgreSQL, and
// returns when that has answered.
func (l *lossy) delay(t *testing.T, text string) (deliver func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := &lateCall{make(chan struct{}), make(chan struct{})}
	l.armed, l.late = []byte(text), late
	release := sync.OnceFunc(func() { close(late.deliver) })
	t.Cleanup(release)
	return func() {
		release()
		<-late.answered
	}
}

func (l *lossy) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// caught says whether what is sent is to be lost, and, where it is to be late, who waits.
func (l *lossy) caught(sent []byte) (bool, *lateCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range l.seen {
		if bytes.Contains(sent, []byte(text)) {
			l.seen[text]++
		}
	}
	if l.armed == nil || !bytes.Contains(sent, l.armed) {
		return false, nil
	}
	late := l.late
	l.armed, l.late = nil, nil
	l.lost++
	return true, late
}

func (l *lossy) carry(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := (&net.Dialer{}).DialContext(context.Background(), "unix", l.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var doomed sync.Once
	cut := make(chan struct{})
	var late *lateCall // written before cut is closed
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		buf := make([]byte, 1<<20)
		for {
			n, err := client.Read(buf)
			if n > 0 {
				if caught, l := l.caught(buf[:n]); caught {
					doomed.Do(func() { late = l; close(cut) })
					if l != nil {
						_ = client.Close()
						<-l.deliver
					}
				}
				// Nothing else follows a call that is late: its connection is closed.
				if _, err := server.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				select {
				case <-cut: // whoever reads the answer closes
				default:
					_ = server.Close()
				}
				return
			}
		}
	})
	buf := make([]byte, 1<<20)
	for {
		n, err := server.Read(buf)
		select {
		case <-cut:
			// The server is ready for the next call, so this one is committed.
			for err == nil && !bytes.HasSuffix(buf[:n], []byte("Z\x00\x00\x00\x05I")) {
				n, err = server.Read(buf)
			}
			_ = client.Close()
			if late != nil {
				close(late.answered)
			}
			return
		default:
		}
		if n > 0 {
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = client.Close()
			return
		}
	}
}
