package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	// retainEvery is how many polls of the router go by for one of retention.
	retainEvery = 10
	// retainRows is how many rows one transaction looks at or removes.
	retainRows = 500
	// vacuumPages is how many free pages one transaction gives back.
	vacuumPages = 256
)

// lastID is behind every id.
const lastID = "~"

// retainAll is the loop of the retention.
func (s *Store) retainAll(ctx context.Context) {
	cause := graph.Reason("")
	for untilNext(ctx, nil, s.cfg.PollInterval*retainEvery) {
		cause = s.report(ctx, "retention", cause, s.retain(ctx, time.Now()))
	}
}

// retain removes what is old, in small transactions of the lowest priority.
func (s *Store) retain(ctx context.Context, now time.Time) error {
	for _, step := range []func(context.Context, *transaction, time.Time) (int64, error){
		s.removeDead, s.removeQuarantined, removeSeen, s.removeAudit,
	} {
		if err := s.repeat(ctx, func(ctx context.Context, t *transaction) (int64, error) { return step(ctx, t, now) }); err != nil {
			return err
		}
	}
	if err := s.sweep(ctx, firstID(now.Add(-s.cfg.RetainDelivered)), 0); err != nil {
		return err
	}
	if s.cfg.MaxBytes > 0 {
		if err := s.sweep(ctx, lastID, s.cfg.MaxBytes); err != nil {
			return err
		}
	}
	return s.vacuum(ctx)
}

// repeat runs a step in transactions of its own until it finds nothing more.
func (s *Store) repeat(ctx context.Context, step func(context.Context, *transaction) (int64, error)) error {
	for ctx.Err() == nil {
		n, err := write(ctx, s.queue, laneRetention, "retention", step)
		if err != nil || n < retainRows {
			return err
		}
	}
	return nil
}

func (s *Store) removeDead(ctx context.Context, t *transaction, now time.Time) (n int64, err error) {
	err = t.query(ctx, `DELETE FROM delivery WHERE id IN (SELECT id FROM delivery
		WHERE state = 'dead' AND settled_at < ? LIMIT ?) RETURNING sink`, func(rows *sql.Rows) error {
		var sink string
		err := rows.Scan(&sink)
		n++
		t.afterCommit(func() { s.tally.addDead(sink, -1) })
		return err
	}, micros(now.Add(-s.cfg.RetainDeadLetters)), retainRows)
	return n, err
}

func (s *Store) removeQuarantined(ctx context.Context, t *transaction, now time.Time) (n int64, err error) {
	err = t.query(ctx, `DELETE FROM quarantine WHERE id IN (SELECT id FROM quarantine
		WHERE quarantined_at < ? ORDER BY quarantined_at LIMIT ?) RETURNING reason`, func(rows *sql.Rows) error {
		var reason notification.Reason
		err := rows.Scan(&reason)
		n++
		t.afterCommit(func() { s.tally.addQuarantine(reason, -1) })
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

// sweep removes notifications that are done with, from the oldest up to an
// id, until the database uses no more than target bytes; 0 asks for all.
//
// It walks once over what is older, since what is not done with yet stays in
// between: a query from the start would read it again and again.
func (s *Store) sweep(ctx context.Context, before string, target int64) error {
	after := ""
	for ctx.Err() == nil {
		next, err := write(ctx, s.queue, laneRetention, "retention", func(ctx context.Context, t *transaction) (string, error) {
			if used, err := usedBytes(ctx, t); err != nil || used <= target {
				return "", err
			}
			return removeDone(ctx, t, after, before)
		})
		if err != nil || next == "" {
			return err
		}
		after = next
	}
	return nil
}

// removeDone looks at the next notifications behind an id; last is "" when
// there is none.
func removeDone(ctx context.Context, t *transaction, after, before string) (last string, err error) {
	var done []any
	err = t.query(ctx, `SELECT n.id, n.state IN ('routed', 'duplicate') AND NOT EXISTS (SELECT 1 FROM delivery d
		WHERE d.notification_id = n.id AND d.state <> 'delivered')
		FROM notification n WHERE n.id > ? AND n.id < ? ORDER BY n.id LIMIT ?`, func(rows *sql.Rows) error {
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

// usedBytes is the size of the database without its free pages.
func usedBytes(ctx context.Context, t *transaction) (int64, error) {
	var pages, free int64
	if _, err := t.row(ctx, `PRAGMA page_count`, nil, &pages); err != nil {
		return 0, err
	}
	_, err := t.row(ctx, `PRAGMA freelist_count`, nil, &free)
	return (pages - free) * pageSize, err
}

// vacuum gives free pages back to the file system, all but as many as are
// soon used again.
func (s *Store) vacuum(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := write(ctx, s.queue, laneRetention, "retention", func(ctx context.Context, t *transaction) (bool, error) {
			var free int64
			if _, err := t.row(ctx, `PRAGMA freelist_count`, nil, &free); err != nil || free <= 2*vacuumPages {
				return false, err
			}
			_, err := t.exec(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages))
			return true, err
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}
