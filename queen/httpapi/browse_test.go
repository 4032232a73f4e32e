package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"queenmq/queen"
)

// walk follows a browse's pages and lists what they show.
func walk(t *testing.T, s *Server, params string) (seen []string, pages int) {
	t.Helper()
	q, err := url.ParseQuery(params)
	if err != nil {
		t.Fatal(err)
	}
	for pages < 1000 {
		pages++
		w := do(s, "GET", "/api/v1/messages?"+q.Encode(), "")
		var got struct {
			Messages []struct {
				Partition string
				Offset    int
			}
			Next map[string]json.Number
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s, %v", q.Encode(), w.Code, w.Body, err)
		}
		for _, m := range got.Messages {
			seen = append(seen, fmt.Sprint(m.Partition, ":", m.Offset))
		}
		if got.Next == nil {
			return seen, pages
		}
		for name, v := range got.Next {
			q.Set(name, v.String())
		}
	}
	t.Fatalf("%s: no end after %d pages", params, pages)
	return nil, 0
}

// TestBrowseGoesThroughAllPartitions: whatever a page ends at, the next one goes on
// there, and who follows them sees each message of the selection once.
func TestBrowseGoesThroughAllPartitions(t *testing.T) {
	t.Parallel()
	fake := newFake()
	s, narrow := New(Config{}, fake), New(Config{}, narrowEngine{fake})
	const partitions = 3 * browseReads
	var all, pending, completed []string
	var items []string
	for p := range partitions {
		name := fmt.Sprintf("p%03d", p)
		for offset := range 1 + p%4 {
			items = append(items, fmt.Sprintf(`{"queue":"q","partition":"%s","payload":%d}`, name, offset))
			all = append(all, fmt.Sprint(name, ":", offset))
		}
	}
	if w := do(s, "POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`); w.Code != 201 {
		t.Fatal(w.Code, w.Body)
	}
	for p := range partitions {
		if p%48 == 3 { // nothing is pending but there
			pending = append(pending, fmt.Sprintf("p%03d:1", p), fmt.Sprintf("p%03d:2", p), fmt.Sprintf("p%03d:3", p))
		}
		to := 1
		if p%48 != 3 {
			to = 1 + p%4
		}
		for offset := range to {
			completed = append(completed, fmt.Sprintf("p%03d:%d", p, offset))
		}
		body := fmt.Sprintf(`{"offset":%d,"partition":"p%03d"}`, to, p)
		if w := do(s, "POST", "/api/v1/consumer-groups/g/queues/q/seek", body); w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
	}
	f := func(params string, want []string, pagesMin int) {
		t.Helper()
		for _, s := range []*Server{s, narrow} {
			got, pages := walk(t, s, params)
			if !slices.Equal(got, want) || pages < pagesMin {
				t.Errorf("%s: %d messages on %d pages, want %d on %d or more\n got %v\nwant %v", params, len(got), pages, len(want), pagesMin, got, want)
			}
		}
	}
	f("queue=q&limit=1000", all, 3)
	f("queue=q&limit=7", all, len(all)/7)
	f("queue=q&limit=1", all, len(all))
	f("queue=q&limit=5&offset=11", all[11:], 1)
	f("queue=q&limit=1000&from=2026-01-01T00:00:00Z", all, 6)
	f("queue=q&limit=1000&from=2027-01-01T00:00:00Z", nil, 3)
	f("queue=q&fromPartition=190&limit=2", all[slices.Index(all, "p190:0"):], 2)
	f("queue=q&fromPartition=190&fromOffset=1&limit=2", all[slices.Index(all, "p190:1"):], 2)
	f("queue=q&partition=p003&fromOffset=1&limit=2", []string{"p003:1", "p003:2", "p003:3"}, 2)
	f("queue=q&consumerGroup=g&status=pending&limit=2", pending, len(pending)/2)
	f("queue=q&consumerGroup=g&status=pending&limit=2&offset=4", pending[4:], 2)
	f("queue=q&consumerGroup=g&status=completed&limit=9&offset=400", completed[400:], 2)
	if seen, pages := walk(t, narrow, "queue=q&status=processing"); len(seen) > 0 || pages < partitions/browseReads {
		t.Errorf("%d pages of partitions that have nothing, a look at each; want %d or more", pages, partitions/browseReads)
	}
}

// narrowEngine tells of one partition at a time.
type narrowEngine struct{ *fake }

func (e narrowEngine) GroupPositions(ctx context.Context, q queen.PositionsQuery) (*queen.PositionsPage, error) {
	q.Limit = 1
	return e.fake.GroupPositions(ctx, q)
}

// cutEngine removes the oldest messages after it was asked where the log begins.
type cutEngine struct {
	*fake
	below int64
}

func (e cutEngine) GroupPositions(ctx context.Context, q queen.PositionsQuery) (*queen.PositionsPage, error) {
	page, err := e.fake.GroupPositions(ctx, q)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues[q.Queue].parts[0].LogStart = e.below
	return page, err
}

// What retention takes while a page is made is left out, and nothing else.
func TestBrowseGoesOnBehindWhatWasRemoved(t *testing.T) {
	t.Parallel()
	s := New(Config{}, cutEngine{newFake(), 2})
	if w := do(s, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":0},{"queue":"q","payload":1},{"queue":"q","payload":2},{"queue":"q","payload":3}]}`); w.Code != 201 {
		t.Fatal(w.Code, w.Body)
	}
	if got, _ := walk(t, s, "queue=q"); !slices.Equal(got, []string{"Default:2", "Default:3"}) {
		t.Errorf("shown are %v, want the two that are left", got)
	}
}
