package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// sqlite is the engine of one process: a lock on the file, one connection that
// writes and some that read.
type sqlite struct {
	*sqliteReader
	store   *Store
	lock    *flock.Flock
	queue   *queue
	writing sync.WaitGroup
	// evidence belongs to the writer.
	evidence seenLog
}

func openSQLite(ctx context.Context, s *Store) (engine, error) {
	if err := checkDisk(ctx, s.cfg.Path, s.cfg.Logger); err != nil {
		return nil, err
	}
	lock, err := lockFile(s.cfg.Path)
	if err != nil {
		return nil, err
	}
	e := &sqlite{store: s, lock: lock, queue: newQueue(), evidence: seenLog{window: s.cfg.SeenWindow, size: generationKeys, kept: keptGenerations}}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := e.releaseClaims(ctx); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// lockFile keeps a second process out. The kernel frees the lock when this
// process dies, however it dies.
func lockFile(path string) (*flock.Flock, error) {
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, unavailable("lock the store", err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s is locked: stop the other graphsubd, or give this one another path; "+
			"two or more replicas need PostgreSQL", ErrInUse, path)
	}
	return lock, nil
}

// start opens the connections and begins the writer.
func (e *sqlite) start(ctx context.Context) (err error) {
	s := e.store
	if err := migrateSQLite(ctx, s.cfg.Path, s.cfg.Logger); err != nil {
		return err
	}
	source, err := dataSource(s.cfg.Path, fmt.Sprintf("cache_size(-%d)", writerCache))
	if err != nil {
		return err
	}
	if e.sqliteReader, err = newSQLiteReader(s.cfg.Path); err != nil {
		return err
	}
	w := &writer{queue: e.queue, source: source, observer: s.metrics.commit, failed: s.router.forget, lost: e.evidence.forget}
	// The writer outlives the call that opened it: close ends it.
	detached := context.WithoutCancel(ctx)
	e.writing.Go(func() { w.loop(detached) })
	return nil
}

// releaseClaims frees what former processes had claimed: the lock says that
// none of them lives.
func (e *sqlite) releaseClaims(ctx context.Context) error {
	_, err := write(ctx, e, laneSink, "release claims", func(ctx context.Context, t *transaction) (int64, error) {
		return t.exec(ctx, `UPDATE delivery SET owner = '', until = 0, next_at = ?
			WHERE state = 'pending' AND owner <> '' AND owner <> ?`, micros(t.now()), e.store.cfg.Owner)
	})
	return err
}

// close takes no more writes, ends those that wait, moves the log into the
// database and closes it.
func (e *sqlite) close() error {
	e.queue.close()
	e.writing.Wait()
	return errors.Join(e.sqliteReader.close(), e.lock.Close())
}

// transact hands a write to the writer.
func (e *sqlite) transact(ctx context.Context, l lane, run func(ctx context.Context, t *transaction) error) error {
	j := &job{queued: time.Now(), done: make(chan error, 1), run: run}
	if !e.queue.put(l, j) {
		return unavailable("write", errClosed)
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		j.abandoned.Store(true)
		return fmt.Errorf("waiting for the writer: %w: %w", graph.ErrStoreUnavailable, context.Cause(ctx))
	}
}

func (e *sqlite) append(ctx context.Context, a *addition) error {
	return e.transact(ctx, laneAppend, func(ctx context.Context, t *transaction) error {
		if e.store.full(a, t.appended) {
			return ErrFull
		}
		for i := range a.rows {
			if err := e.store.insertRow(ctx, t, &a.rows[i]); err != nil {
				return err
			}
		}
		t.appended.add(a.adds.rows, a.adds.bytes)
		t.afterCommit(func() { e.store.added(a) })
		return nil
	})
}

func (e *sqlite) claim(ctx context.Context, sink string, limit int, lease time.Duration) ([]notification.Delivery, error) {
	return write(ctx, e, laneSink, "claim", func(ctx context.Context, t *transaction) ([]notification.Delivery, error) {
		now := t.now()
		var claimed []notification.Delivery
		var ids []any
		if err := t.query(ctx, `SELECT `+notificationColumns+`, d.id, d.sink, d.key, d.attempts
			FROM delivery d JOIN notification n ON n.id = d.notification_id
			WHERE d.sink = ? AND d.state = 'pending' AND d.next_at <= ?
			ORDER BY d.next_at, d.id LIMIT ?`, func(row cursor) error {
			var d notification.Delivery
			err := scanNotification(row, &d.Notification, &d.ID, &d.Sink, &d.Key, &d.Attempts)
			claimed, ids = append(claimed, d), append(ids, d.ID)
			return err
		}, sink, micros(now), limit); err != nil {
			return nil, err
		}
		// next_at moves too, so that the index of due ones is also the one of
		// claims to take over.
		until := micros(now.Add(lease))
		return claimed, t.execIn(ctx, `UPDATE delivery SET owner = ?, until = ?, next_at = ? WHERE id IN (?)`,
			ids, e.store.cfg.Owner, until, until)
	})
}

func (e *sqlite) settle(ctx context.Context, outcomes []notification.Outcome) (lost int, err error) {
	return write(ctx, e, laneSink, "settle", func(ctx context.Context, t *transaction) (lost int, err error) {
		for i := range outcomes {
			ours, err := e.settleOne(ctx, t, &outcomes[i])
			if err != nil {
				return 0, err
			}
			if !ours {
				lost++
			}
		}
		return lost, nil
	})
}

func (e *sqlite) settleOne(ctx context.Context, t *transaction, outcome *notification.Outcome) (ours bool, err error) {
	state := stateAfter(outcome)
	settledAt := int64(0)
	if state != deliveryPending {
		settledAt = micros(t.now())
	}
	var sink string
	var bytes int64
	ours, err = t.row(ctx, `UPDATE delivery SET state = ?, settled_at = ?, next_at = ?, last_error = ?,
		attempts = attempts + 1, owner = '', until = 0
		WHERE id = ? AND owner = ? AND state = 'pending' RETURNING sink, bytes`,
		[]any{state, settledAt, micros(outcome.Next), outcome.Error, outcome.DeliveryID, e.store.cfg.Owner}, &sink, &bytes)
	if ours && err == nil {
		t.afterCommit(func() { e.store.settled(sink, state, bytes) })
	}
	return ours, err
}

func (e *sqlite) nextDue(ctx context.Context, sink string) (at time.Time, found bool, err error) {
	var next int64
	found, err = oneRow(ctx, e, `SELECT next_at FROM delivery
		WHERE sink = ? AND state = 'pending' ORDER BY next_at LIMIT 1`, []any{sink}, []any{&next})
	return instant(next), found, err
}

// enterRouter has nothing to do: there is one writer.
func (e *sqlite) enterRouter(context.Context, *transaction, bool) (bool, error) { return true, nil }

// locking has nothing to add: a transaction that writes locks the database.
func (e *sqlite) locking(query string) string { return query }

func (e *sqlite) refresh(context.Context) error { return nil }

func (e *sqlite) shared() bool { return false }

// size is that of the database with its log.
func (e *sqlite) size() int64 {
	var sum int64
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(e.store.cfg.Path + suffix); err == nil {
			sum += info.Size()
		}
	}
	return sum
}
