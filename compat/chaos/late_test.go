package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"queenmq/compat/broker"
)

// throughProxy runs a broker whose connections to PostgreSQL pass a proxy.
func throughProxy(t *testing.T) (*broker.Process, *Proxy) {
	t.Helper()
	pg, proxy := postgres(t)
	return start(t, broker.Config{DataDir: broker.TempDataDir(t), DatabaseURL: pg.URLAt(proxy.Addr())}), proxy
}

// request sends JSON to a broker's HTTP door.
func request(ctx context.Context, p *broker.Process, method, path string, body any) (int, []byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.HTTP+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// A first attempt that arrives after its repeat stores nothing: on a queue with
// a window, on one without, and for a Kafka batch. One whose reply was lost is told
// where it is.
func TestALateFirstAttemptStoresNothing(t *testing.T) {
	t.Parallel()
	ctx := timeout(t, 2*time.Minute)
	p, proxy := throughProxy(t)
	cl, err := kgo.NewClient(append(onlyAt(p.Kafka), kgo.DefaultProduceTopic("kafka"),
		// The client must not resend: the repeat is the broker's.
		kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "kafka"); err != nil {
		t.Fatal(err)
	}
	for queue, window := range map[string]int{"window": 3600, "no-window": 0} {
		status, text, err := request(ctx, p, "POST", "/api/v1/configure", map[string]any{
			"queue": queue, "options": map[string]int{"dedupWindowSeconds": window},
		})
		if err != nil || status/100 != 2 {
			t.Fatalf("configure: %d %s %v", status, text, err)
		}
	}
	push := func(queue string, n int) (int64, error) {
		status, text, err := request(ctx, p, "POST", "/api/v1/push", map[string]any{
			"items": []map[string]any{{"queue": queue, "payload": n, "transactionId": fmt.Sprint(n)}},
		})
		if err != nil {
			return 0, err
		}
		var vs []struct {
			Status string `json:"status"`
			Offset int64  `json:"offset"`
		}
		if err := json.Unmarshal(text, &vs); err != nil || status != http.StatusCreated || len(vs) != 1 || vs[0].Status != "queued" {
			return 0, fmt.Errorf("push: %d %s", status, text)
		}
		return vs[0].Offset, nil
	}
	stores := map[string]func(n int) (int64, error){
		"window":    func(n int) (int64, error) { return push("window", n) },
		"no-window": func(n int) (int64, error) { return push("no-window", n) },
		"kafka": func(n int) (int64, error) {
			r, err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(n))).First()
			if err != nil {
				return 0, err
			}
			return r.Offset, nil
		},
	}
	end := func(queue string) int64 {
		t.Helper()
		ends, err := adm.ListEndOffsets(ctx, queue)
		if err != nil {
			t.Fatal(err)
		}
		return ends[queue][0].Offset
	}
	for queue, store := range stores {
		want := int64(0)
		stored := func(what string) {
			t.Helper()
			offset, err := store(int(want))
			if err != nil {
				t.Fatalf("%s, %s: %v", queue, what, err)
			}
			if offset != want {
				t.Errorf("%s, %s: stored at %d, want %d", queue, what, offset, want)
			}
			want++
		}
		stored("undisturbed")

		held := proxy.HoldNext(callText)
		stored("the first attempt held, its repeat passed")
		if err := held.Caught(ctx); err != nil {
			t.Fatal(err)
		}
		stored("behind it")
		if err := held.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if n := end(queue); n != want {
			t.Errorf("%s: the log ends at %d after the late attempt, want %d", queue, n, want)
		}
		stored("after the late attempt")

		dropped := proxy.DropReplyOfNext(callText)
		stored("the reply of the first attempt lost")
		if err := dropped.Done(ctx); err != nil {
			t.Fatal(err)
		}
		stored("after the lost reply")
		if n := end(queue); n != want {
			t.Errorf("%s: the log ends at %d, want %d", queue, n, want)
		}
	}
}
