package store

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	// retainEvery is how many polls of the router go by for one of retention.
	retainEvery = 10
	// retainRows is how many rows one transaction looks at or removes.
	retainRows = 500
)

// retainAll is the loop of the retention.
func (s *Store) retainAll(ctx context.Context) {
	cause := graph.Reason("")
	for untilNext(ctx, nil, s.cfg.PollInterval*retainEvery) {
		cause = s.report(ctx, "retention", cause, s.retain(ctx))
	}
}

// retain removes what is old, in small transactions of the lowest priority.
func (s *Store) retain(ctx context.Context) error {
	for _, step := range []func(context.Context, *transaction, time.Time) (int64, error){
		s.removeDead, s.removeQuarantined, removeSeen, s.removeAudit, s.removeCommands,
	} {
		if err := s.repeat(ctx, func(ctx context.Context, t *transaction) (int64, error) { return step(ctx, t, t.now()) }); err != nil {
			return err
		}
	}
	return s.engine.retain(ctx)
}

// repeat runs a step in transactions of its own until it finds nothing more.
func (s *Store) repeat(ctx context.Context, step func(context.Context, *transaction) (int64, error)) error {
	for ctx.Err() == nil {
		n, err := write(ctx, s.engine, laneRetention, "retention", step)
		if err != nil || n < retainRows {
			return err
		}
	}
	return nil
}

// removeDead goes by sink, as the index of dead letters does.
func (s *Store) removeDead(ctx context.Context, t *transaction, now time.Time) (most int64, err error) {
	for sink, dead := range s.tally.deadRows() {
		if dead == 0 {
			continue
		}
		n, err := t.exec(ctx, `DELETE FROM delivery WHERE id IN (SELECT id FROM delivery
			WHERE state = 'dead' AND sink = ? AND settled_at < ? LIMIT ?)`, sink, micros(now.Add(-s.cfg.RetainDeadLetters)), retainRows)
		if err != nil {
			return 0, err
		}
		t.afterCommit(func() { s.tally.addDead(sink, -n) })
		most = max(most, n)
	}
	return most, nil
}

func (s *Store) removeQuarantined(ctx context.Context, t *transaction, now time.Time) (n int64, err error) {
	err = t.query(ctx, `DELETE FROM quarantine WHERE id IN (SELECT id FROM quarantine
		WHERE quarantined_at < ? ORDER BY quarantined_at LIMIT ?) RETURNING reason, length(item)`, func(rows cursor) error {
		var reason notification.Reason
		var size int64
		err := rows.Scan(&reason, &size)
		n++
		t.afterCommit(func() { s.tally.addQuarantine(reason, -1, -size) })
		return err
	}, micros(now.Add(-s.cfg.RetainDeadLetters)), retainRows)
	return n, err
}

func removeSeen(ctx context.Context, t *transaction, now time.Time) (int64, error) {
	return t.exec(ctx, `DELETE FROM seen WHERE key IN (SELECT key FROM seen
		WHERE until <= ? ORDER BY until LIMIT ?)`, micros(now), retainRows)
}

func (s *Store) removeAudit(ctx context.Context, t *transaction, now time.Time) (int64, error) {
	return t.exec(ctx, `DELETE FROM audit WHERE id IN (SELECT id FROM audit
		WHERE at < ? ORDER BY at LIMIT ?)`, micros(now.Add(-s.cfg.RetainAudit)), retainRows)
}

// removeDone looks at the next notifications behind an id; last is "" when
// there is none.
func removeDone(ctx context.Context, t *transaction, after, before string) (last string, err error) {
	var done []any
	err = t.query(ctx, `SELECT n.id, n.state IN ('routed', 'duplicate') AND NOT EXISTS (SELECT 1 FROM delivery d
		WHERE d.notification_id = n.id AND d.state <> 'delivered')
		FROM notification n WHERE n.id > ? AND n.id < ? ORDER BY n.id LIMIT ?`, func(rows cursor) error {
		var over bool
		err := rows.Scan(&last, &over)
		if over {
			done = append(done, last)
		}
		return err
	}, after, before, retainRows)
	if err != nil {
		return "", err
	}
	if err := t.execIn(ctx, `DELETE FROM delivery WHERE notification_id IN (?)`, done); err != nil {
		return "", err
	}
	return last, t.execIn(ctx, `DELETE FROM notification WHERE id IN (?)`, done)
}

// removeCommands removes those that were carried out, when the audit forgets
// them.
func (s *Store) removeCommands(ctx context.Context, t *transaction, now time.Time) (int64, error) {
	return t.exec(ctx, `DELETE FROM command WHERE id IN (SELECT id FROM command
		WHERE settled_at > 0 AND settled_at < ? LIMIT ?)`, micros(now.Add(-s.cfg.RetainAudit)), retainRows)
}
