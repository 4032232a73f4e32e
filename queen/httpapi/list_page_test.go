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

func (e *countingEngine) Partitions(ctx context.Context, queue string) ([]queen.Partition, error) {
	e.lists++
	return e.fake.Partitions(ctx, queue)
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
