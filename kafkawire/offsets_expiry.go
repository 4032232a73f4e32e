package kafkawire

import (
	"context"
	"errors"
	"slices"
	"time"

	"queenmq/queen"
)

// expiryEvery is how often positions are looked through for old ones: often
// enough for the retention, and at most every ten minutes (Kafka's
// offsets.retention.check.interval.ms). The first time is that long after the
// start, so that members can come back before.
func (c GroupConfig) expiryEvery() time.Duration {
	return min(max(c.OffsetsRetention/10, time.Second), 10*time.Minute)
}

// expireOffsets is the goroutine that deletes positions OffsetsRetention after the
// last member of their group was seen, or, as the members read other topics now,
// after their commit. Each broker does it for the groups it coordinates.
func (s *Server) expireOffsets(ctx context.Context) {
	every := time.NewTicker(s.cfg.Groups.expiryEvery())
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		if err := s.expireOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("positions were not looked through for old ones; will retry", "error", err)
		}
	}
}

// expireOnce is one round.
func (s *Server) expireOnce(ctx context.Context) error {
	g := &s.cfg.Groups
	// Who has members is noted only now and then, so what is noted counts for longer.
	seen := g.OffsetsRetention + g.expiryEvery()
	if err := s.engine.GroupsSeen(ctx, s.groups.populated(), 2*seen); err != nil {
		return err
	}
	return s.engine.OldOffsets(ctx, g.OffsetsRetention, func(group string) error {
		at := s.engine.Coordinator(group)
		if !at.Mine {
			return nil
		}
		topics, known, empty := s.groups.subscriptions(group, at.Fence)
		if !empty && !known {
			return nil // who knows what they read
		}
		x := queen.Expiry{Age: g.OffsetsRetention, Seen: seen, Live: !empty}
		for topic := range topics {
			x.Topics = append(x.Topics, topic)
		}
		n, err := s.engine.ExpireOffsets(ctx, group, at.Fence, x)
		if n > 0 {
			s.log.Info("old positions deleted", "group", group, "positions", n)
		}
		if errors.Is(err, queen.ErrNotCoordinator) {
			return nil
		}
		return err
	})
}

// populated lists the groups that had members since it was last asked, by name.
func (s *groups) populated() []string {
	for _, l := range s.all() {
		l.mu.Lock()
		if !l.gone {
			s.settle(l)
		}
		l.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.active))
	for name := range s.active {
		names = append(names, name)
	}
	clear(s.active)
	slices.Sort(names)
	return names
}
