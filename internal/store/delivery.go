package store

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// Claim takes up to limit due deliveries of a sink for the time of lease, the
// one that is due the longest first. One that is not settled by then can be
// claimed again, by anyone. On SQLite the claim of a process that has ended is
// free at the next Open.
func (s *Store) Claim(ctx context.Context, sink string, limit int, lease time.Duration) ([]notification.Delivery, error) {
	if limit <= 0 {
		return nil, nil
	}
	return s.engine.claim(ctx, sink, limit, lease)
}

// Settle stores how tries ended. An outcome whose delivery is no longer
// claimed by this process changes nothing; the others are stored, and the
// error is ErrClaimLost.
func (s *Store) Settle(ctx context.Context, outcomes []notification.Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	lost, err := s.engine.settle(ctx, outcomes)
	if err == nil && lost > 0 {
		return fmt.Errorf("settle: %w: %d of %d deliveries", ErrClaimLost, lost, len(outcomes))
	}
	return err
}

// stateAfter gives the state of a delivery after a try of it.
func stateAfter(outcome *notification.Outcome) string {
	switch {
	case outcome.Dead:
		return deliveryDead
	case outcome.Next.IsZero():
		return deliveryDelivered
	}
	return deliveryPending
}

// settled counts a delivery whose try has been stored.
func (s *Store) settled(sink, state string, bytes int64) {
	if state == deliveryPending {
		return
	}
	s.tally.addPending(sink, -1, -bytes)
	if state == deliveryDead {
		s.tally.addDead(sink, 1)
	}
}

// Pending gives a channel that gets a token when new deliveries of a sink may
// be due. Tokens are merged, so a receiver claims until nothing is left; and
// since the channel begins at the first call, it claims once before it waits.
func (s *Store) Pending(sink string) <-chan struct{} { return s.channel(sink) }

func (s *Store) channel(sink string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.pending[sink]
	if c == nil {
		c = make(chan struct{}, 1)
		s.pending[sink] = c
	}
	return c
}

// channels gives those that were asked for.
func (s *Store) channels() map[string]chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pending)
}

// NextDue gives the earliest instant at which a delivery of a sink can be
// claimed: its next try, or the end of another's claim. It is in the past when
// one is due; found is false when none is pending.
func (s *Store) NextDue(ctx context.Context, sink string) (at time.Time, found bool, err error) {
	return s.engine.nextDue(ctx, sink)
}

// refreshOldest looks up what the age of the oldest delivery is counted from.
func (s *Store) refreshOldest(ctx context.Context) error {
	oldest := map[string]time.Time{}
	for sink, rows := range s.tally.pendingRows() {
		var created int64
		if rows == 0 {
			continue
		}
		found, err := s.reader.row(ctx, `SELECT created_at FROM delivery
			WHERE sink = ? AND state = 'pending' ORDER BY id LIMIT 1`, []any{sink}, &created)
		if err != nil {
			return err
		}
		if found {
			oldest[sink] = instant(created)
		}
	}
	s.metrics.setOldest(oldest)
	return nil
}
