package queen

import (
	"context"
	"time"
)

// expiryGroupsMax bounds the groups looked at in one statement.
const expiryGroupsMax = 500

// OldOffsets calls f for each group that has a position which a Kafka client
// committed age ago or earlier, by name. An error of f ends it.
func (e *Engine) OldOffsets(ctx context.Context, age time.Duration, f func(group string) error) error {
	after := ""
	for {
		rows, err := e.db.ExpirableGroups(ctx, after, expiryGroupsMax, age)
		if err != nil {
			return storeError("find old positions", err)
		}
		for _, r := range rows {
			after = r.Group
			if !r.Old {
				continue
			}
			if err := f(r.Group); err != nil {
				return err
			}
		}
		if len(rows) < expiryGroupsMax {
			return nil
		}
		sleep(ctx, 5*time.Millisecond) // a breath for the database
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// GroupsSeen notes, for ExpireOffsets, that groups have or just had members.
// Groups without positions that were not seen for forget are forgotten.
func (e *Engine) GroupsSeen(ctx context.Context, groups []string, forget time.Duration) error {
	for {
		n := min(len(groups), expiryGroupsMax)
		if err := e.db.GroupsSeen(ctx, groups[:n], forget, retentionRowsMax); err != nil {
			return storeError("note who has members", err)
		}
		if groups = groups[n:]; len(groups) == 0 {
			return nil
		}
	}
}

// Expiry says which of a group's positions are old.
type Expiry struct {
	Age time.Duration // since the Kafka commit that wrote it
	// Live: the group has members, who read Topics; what lies there is not old.
	// Without members nothing is old while some were seen less than Seen ago.
	Live   bool
	Topics []string
	Seen   time.Duration
}

// ExpireOffsets deletes old positions of a group, under the Fence its Coordinator
// gave; it returns how many. Positions that a native consumer wrote last, or has
// a lease on, are not touched, however old.
func (e *Engine) ExpireOffsets(ctx context.Context, group string, under Fence, x Expiry) (int, error) {
	var keep []string
	if x.Live {
		keep = append([]string{}, x.Topics...)
	}
	deleted := 0
	err := repeatStep(ctx, func() (more bool, err error) {
		n, err := e.db.ExpireCursors(ctx, group, under, x.Age, x.Seen, keep, retentionRowsMax)
		deleted += n
		return n >= retentionRowsMax, err
	})
	return deleted, groupError("expire positions", group, err)
}
