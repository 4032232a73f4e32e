package chaos

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/compat/broker"
)

// postgres gives the PostgreSQL of a broker and a proxy in front of it.
func postgres(t *testing.T) (broker.PG, *Proxy) {
	t.Helper()
	dir := broker.TempDataDir(t)
	start(t, broker.Config{DataDir: dir})
	pg, err := broker.Postgres(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProxy(t.Context(), "unix", pg.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return pg, p
}

func connect(ctx context.Context, t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(ctx)) })
	return c
}

func TestProxyHoldsACallWhileItsRepeatPasses(t *testing.T) {
	t.Parallel()
	ctx := timeout(t, time.Minute)
	pg, proxy := postgres(t)
	direct := connect(ctx, t, pg.URL())
	if _, err := direct.Exec(ctx, "CREATE TABLE public.arrivals (n serial, who text)"); err != nil {
		t.Fatal(err)
	}
	const insert = "INSERT INTO public.arrivals (who) VALUES ($1)"
	arrivals := func() (who []string) {
		t.Helper()
		rows, err := direct.Query(ctx, "SELECT who FROM public.arrivals ORDER BY n")
		if err != nil {
			t.Fatal(err)
		}
		if who, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
		return who
	}
	want := func(want ...string) {
		t.Helper()
		got := arrivals()
		if len(got) != len(want) {
			t.Fatalf("arrived: %q, want %q", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("arrived: %q, want %q", got, want)
			}
		}
	}

	first := connect(ctx, t, pg.URLAt(proxy.Addr()))
	if _, err := first.Exec(ctx, insert, "before"); err != nil {
		t.Fatal(err)
	}
	held := proxy.HoldNext("public.arrivals")
	if _, err := first.Exec(ctx, insert, "first"); err == nil {
		t.Fatal("the held call was answered")
	}
	if err := held.Caught(ctx); err != nil {
		t.Fatal(err)
	}
	want("before")
	repeat := connect(ctx, t, pg.URLAt(proxy.Addr()))
	if _, err := repeat.Exec(ctx, insert, "repeat"); err != nil {
		t.Fatal(err)
	}
	want("before", "repeat")
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	want("before", "repeat", "first")

	dropped := proxy.DropReplyOfNext("public.arrivals")
	if _, err := repeat.Exec(ctx, insert, "unheard"); err == nil {
		t.Fatal("the reply came through")
	}
	if err := dropped.Done(ctx); err != nil {
		t.Fatal(err)
	}
	want("before", "repeat", "first", "unheard")

	cut := connect(ctx, t, pg.URLAt(proxy.Addr()))
	proxy.Cut()
	if err := cut.Ping(ctx); err == nil {
		t.Fatal("a cut connection answers")
	}
	if err := connect(ctx, t, pg.URLAt(proxy.Addr())).Ping(ctx); err != nil {
		t.Fatal(err)
	}
}

// echo is a server that says what it hears.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return ln.Addr().String()
}

func TestLinkSwallowsRefusesAndDeliversLate(t *testing.T) {
	t.Parallel()
	link, err := NewLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	link.Aim(echo(t))
	dial := func() net.Conn {
		t.Helper()
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", link.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	say := func(c net.Conn, what string) {
		t.Helper()
		if _, err := io.WriteString(c, what); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(c net.Conn, within time.Duration) (string, error) {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		n, err := c.Read(buf)
		return string(buf[:n]), err
	}
	const soon, surely = 50 * time.Millisecond, 10 * time.Second
	c := dial()
	for _, ways := range [][]Way{{There}, {Back}, {There, Back}} {
		say(c, "a")
		if got, err := hear(c, surely); got != "a" {
			t.Fatalf("heard %q %v", got, err)
		}
		link.Swallow(ways...)
		say(c, "late")
		if got, err := hear(c, soon); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("ways %v: heard %q %v through a black hole", ways, got, err)
		}
		link.Resume()
		if got, err := hear(c, surely); got != "late" {
			t.Fatalf("ways %v: heard %q %v after it", ways, got, err)
		}
	}
	link.Swallow(There, Back)
	say(c, "lost")
	link.Cut()
	link.Resume()
	if got, err := hear(c, surely); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q %v on a cut connection", got, err)
	}
	link.Refuse()
	if got, err := hear(dial(), surely); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q %v where connections are refused", got, err)
	}
	link.Admit()
	c = dial()
	say(c, "again")
	if got, err := hear(c, surely); got != "again" {
		t.Fatalf("heard %q %v", got, err)
	}
}
