package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/compat/broker"
)

// postgres gives the PostgreSQL of a broker and a proxy in front of it.
func postgres(t *testing.T) (broker.PG, *Proxy) {
	t.Helper()
	dir := dataDir(t)
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
