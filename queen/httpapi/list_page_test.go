package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"queenmq/queen"
)

// countingEngine counts the queues whose partitions are listed.
type countingEngine struct {
	*fake
	lists int
}

func (e *countingEngine) Partitions(ctx context.Context, queue string, from, limit int) ([]queen.Partition, int, error) {
	e.lists++
	return e.fake.Partitions(ctx, queue, from, limit)
}

// TestListsAreBounded: no answer is as long as what there is, asked for or not.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	s := New(Config{}, newFake())
	body := []byte(`{"items":[`)
	for i := range listMax + 1 {
		body = fmt.Appendf(appendComma(body, i), `{"queue":"q","partition":"p%d","payload":1}`, i)
		if i == listMax-1 {
			if w := do(s, "POST", "/api/v1/push", string(body)+"]}"); w.Code != 201 {
				t.Fatal(w.Code, w.Body)
			}
			body = []byte(`{"items":[`)
			body = fmt.Appendf(body, `{"queue":"q","partition":"last","payload":1}`)
			break
		}
	}
	if w := do(s, "POST", "/api/v1/push", string(body)+"]}"); w.Code != 201 {
		t.Fatal(w.Code, w.Body)
	}
	type page struct {
		Partitions []struct{ Number int }
		Next       *int
		Total      int
	}
	get := func(path string) (p page) {
		t.Helper()
		w := do(s, "GET", path, "")
		if err := json.Unmarshal(w.Body.Bytes(), &p); w.Code != 200 || err != nil {
			t.Fatal(path, w.Code, err)
		}
		return p
	}
	const list = "/api/v1/resources/queues/q/partitions"
	if p := get(list); len(p.Partitions) != listMax || p.Next == nil || *p.Next != listMax {
		t.Errorf("%d partitions, next %v; want %d and there to go on", len(p.Partitions), p.Next, listMax)
	}
	if p := get(list + "?fromPartition=3&limit=2"); len(p.Partitions) != 2 || p.Partitions[0].Number != 3 || p.Next == nil || *p.Next != 5 {
		t.Errorf("from 3: %+v", p)
	}
	if p := get(list + fmt.Sprint("?fromPartition=", listMax)); len(p.Partitions) != 1 || p.Partitions[0].Number != listMax || p.Next != nil {
		t.Errorf("the last page: %+v", p)
	}
	for _, all := range []string{"/api/v1/resources/partitions", "/api/v1/resources/partitions?queue=q"} {
		if p := get(all); len(p.Partitions) != listMax || p.Total != listMax+1 {
			t.Errorf("%s: %d partitions of %d, want %d of %d", all, len(p.Partitions), p.Total, listMax, listMax+1)
		}
	}
	for _, list := range []string{
		list, "/api/v1/resources/partitions", "/api/v1/resources/queues", "/api/v1/resources/namespaces", "/api/v1/resources/tasks",
		"/api/v1/status/queues", "/api/v1/status/queues/q", "/api/v1/consumer-groups",
	} {
		if w := do(s, "GET", fmt.Sprintf("%s?limit=%d", list, listMax+1), ""); w.Code != 400 {
			t.Errorf("%s of more than %d: %d %s, want a refusal", list, listMax, w.Code, w.Body)
		}
	}
}

// TestAPageOfPartitionsAsksForItsQueuesAlone: of the others it is known how many they have.
func TestAPageOfPartitionsAsksForItsQueuesAlone(t *testing.T) {
	t.Parallel()
	e := &countingEngine{fake: newFake()}
	s := New(Config{}, e)
	var all []string
	for q := range 20 {
		for p := range 3 {
			body := fmt.Sprintf(`{"items":[{"queue":"q%02d","partition":"p%d","payload":1}]}`, q, p)
			if w := do(s, "POST", "/api/v1/push", body); w.Code != 201 {
				t.Fatal(w.Code, w.Body)
			}
			all = append(all, fmt.Sprintf("q%02d/p%d", q, p))
		}
	}
	for _, f := range []struct{ offset, limit, lists int }{
		{0, 60, 20}, {0, 3, 1}, {2, 2, 2}, {3, 3, 1}, {59, 100, 1}, {60, 5, 0}, {1000, 5, 0}, {5, 0, 0},
	} {
		e.lists = 0
		w := do(s, "GET", fmt.Sprintf("/api/v1/resources/partitions?offset=%d&limit=%d", f.offset, f.limit), "")
		var got struct {
			Partitions []struct{ Queue, Name string }
			Total      int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(w.Code, w.Body, err)
		}
		var names []string
		for _, p := range got.Partitions {
			names = append(names, p.Queue+"/"+p.Name)
		}
		from := min(f.offset, len(all))
		if want := all[from:min(from+f.limit, len(all))]; !slices.Equal(names, want) || got.Total != len(all) || e.lists != f.lists {
			t.Errorf("offset %d, limit %d: %v of %d, %d queues were asked; want %v of %d, %d", f.offset, f.limit, names, got.Total, e.lists, want, len(all), f.lists)
		}
	}
}
