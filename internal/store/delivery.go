package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// Claim takes up to limit due deliveries of a sink for the time of lease, the
// one that is due the longest first. One that is not settled by then can be
// claimed again, by anyone. The claim of a process that has ended is free at
// the next Open.
func (s *Store) Claim(ctx context.Context, sink string, limit int, lease time.Duration) ([]notification.Delivery, error) {
	if limit <= 0 {
		return nil, nil
	}
	return write(ctx, s.queue, laneSink, "claim", func(ctx context.Context, t *transaction) ([]notification.Delivery, error) {
		now := time.Now()
		claimed, ids, err := due(ctx, t, sink, limit, now)
		if err != nil {
			return nil, err
		}
		// next_at moves too, so that the index of due ones is also the one of
		// claims to take over.
		until := micros(now.Add(lease))
		return claimed, t.execIn(ctx, `UPDATE delivery SET owner = ?, until = ?, next_at = ? WHERE id IN (?)`,
			ids, s.cfg.Owner, until, until)
	})
}

func due(ctx context.Context, t *transaction, sink string, limit int, now time.Time) (claimed []notification.Delivery, ids []any, err error) {
	err = t.query(ctx, `SELECT `+notificationColumns+`, d.id, d.sink, d.key, d.attempts
		FROM delivery d JOIN notification n ON n.id = d.notification_id
		WHERE d.sink = ? AND d.state = 'pending' AND d.next_at <= ?
		ORDER BY d.next_at, d.id LIMIT ?`, func(rows *sql.Rows) error {
		var d notification.Delivery
		err := scanNotification(rows, &d.Notification, &d.ID, &d.Sink, &d.Key, &d.Attempts)
		claimed, ids = append(claimed, d), append(ids, d.ID)
		return err
	}, sink, micros(now), limit)
	return claimed, ids, err
}

// Settle stores how tries ended. An outcome whose delivery is no longer
// claimed by this process changes nothing; the others are stored, and the
// error is ErrClaimLost.
func (s *Store) Settle(ctx context.Context, outcomes []notification.Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	lost, err := write(ctx, s.queue, laneSink, "settle", func(ctx context.Context, t *transaction) (lost int, err error) {
		now := time.Now()
		for i := range outcomes {
			ours, err := s.settle(ctx, t, &outcomes[i], now)
			if err != nil {
				return 0, err
			}
			if !ours {
				lost++
			}
		}
		return lost, nil
	})
	if err == nil && lost > 0 {
		return fmt.Errorf("settle: %w: %d of %d deliveries", ErrClaimLost, lost, len(outcomes))
	}
	return err
}

func (s *Store) settle(ctx context.Context, t *transaction, outcome *notification.Outcome, now time.Time) (ours bool, err error) {
	state, settledAt := deliveryPending, int64(0)
	switch {
	case outcome.Dead:
		state, settledAt = deliveryDead, micros(now)
	case outcome.Next.IsZero():
		state, settledAt = deliveryDelivered, micros(now)
	}
	var sink string
	var bytes int64
	ours, err = t.row(ctx, `UPDATE delivery SET state = ?, settled_at = ?, next_at = ?, last_error = ?,
		attempts = attempts + 1, owner = '', until = 0
		WHERE id = ? AND owner = ? AND state = 'pending' RETURNING sink, bytes`,
		[]any{state, settledAt, micros(outcome.Next), outcome.Error, outcome.DeliveryID, s.cfg.Owner}, &sink, &bytes)
	if !ours || err != nil || state == deliveryPending {
		return ours, err
	}
	t.afterCommit(func() {
		s.tally.addPending(sink, -1, -bytes)
		if state == deliveryDead {
			s.tally.addDead(sink, 1)
		}
	})
	return true, nil
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

// NextDue gives the earliest instant at which a delivery of a sink can be
// claimed: its next try, or the end of another's claim. It is in the past when
// one is due; found is false when none is pending.
func (s *Store) NextDue(ctx context.Context, sink string) (at time.Time, found bool, err error) {
	var next int64
	found, err = s.reader.row(ctx, `SELECT next_at FROM delivery
		WHERE sink = ? AND state = 'pending' ORDER BY next_at LIMIT 1`, []any{sink}, &next)
	return instant(next), found, err
}

// releaseClaims frees what former processes had claimed: the lock says that
// none of them lives.
func (s *Store) releaseClaims(ctx context.Context) error {
	_, err := write(ctx, s.queue, laneSink, "release claims", func(ctx context.Context, t *transaction) (int64, error) {
		return t.exec(ctx, `UPDATE delivery SET owner = '', until = 0, next_at = ?
			WHERE state = 'pending' AND owner <> '' AND owner <> ?`, micros(time.Now()), s.cfg.Owner)
	})
	return err
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
