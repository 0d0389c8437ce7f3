package store

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A shared transaction takes jobs until none waits or one of these is
// reached. Time bounds how long other lanes wait; rows and bytes bound what
// one sync has to write.
const (
	groupTime  = 20 * time.Millisecond
	groupRows  = 8192
	groupBytes = 16 << 20
)

// writer owns the connection that writes. All its methods but close are
// called by its own goroutine.
type writer struct {
	queue    *queue
	source   string // how to open the database
	observer prometheus.Observer
	// failed is called after a transaction that was rolled back.
	failed func()
	// lost is called when nobody knows what the last transaction came to.
	lost func()

	db         *sql.DB // nil when the connection has to be opened
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

// loop takes jobs until the queue is closed and empty, then closes the
// connection. ctx must not end before: a statement is never broken off.
func (w *writer) loop(ctx context.Context) {
	for {
		l, ok := w.queue.lane()
		if !ok {
			break
		}
		w.transact(ctx, l)
	}
	w.disconnect(ctx, true)
}

// transact runs one job, or the waiting ones of a lane that shares, in one
// transaction and answers them when it has ended.
func (w *writer) transact(ctx context.Context, l lane) {
	start := time.Now()
	first := w.queue.take(l)
	if first == nil {
		return
	}
	jobs, healthy := []*job{first}, true
	t, err := w.begin(ctx)
	switch {
	case err != nil:
	case l.shared():
		jobs, healthy, err = w.fill(ctx, t, l, first, start)
	default:
		err = first.run(ctx, t)
	}
	if err == nil {
		_, err = t.exec(ctx, "COMMIT")
		w.observer.Observe(time.Since(start).Seconds())
	}
	w.end(ctx, t, err, healthy)
	for _, j := range jobs {
		if err != nil && j.err == nil {
			j.err = err
		}
		j.done <- j.err
	}
}

// end runs the hooks of what is durable, or undoes what is not. A connection
// whose database failed is not used again: after a failed sync nobody knows
// what it believes to be written.
func (w *writer) end(ctx context.Context, t *transaction, err error, healthy bool) {
	if err == nil {
		for _, hook := range t.hooks {
			hook()
		}
	} else {
		w.failed()
		if healthy = onlyUnavailable(err) == nil; healthy {
			_, err := t.exec(ctx, "ROLLBACK")
			healthy = err == nil
		}
	}
	if !healthy {
		w.lost()
		w.disconnect(ctx, false)
	}
}

func (w *writer) begin(ctx context.Context) (*transaction, error) {
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	t := &transaction{session: &sqliteSession{w.conn, w.statements}, now: time.Now}
	_, err := t.exec(ctx, "BEGIN IMMEDIATE")
	return t, err
}

// fill runs jobs until the group is full. An error means that the transaction
// is lost to all of them; healthy is false when the database failed one.
func (w *writer) fill(ctx context.Context, t *transaction, l lane, first *job, start time.Time) (jobs []*job, healthy bool, err error) {
	healthy = true
	yielded := false
	for j := first; ; j = w.queue.take(l) {
		if j == nil {
			// Callers that the last commit released come back at about the
			// same time; letting them run once saves them a sync each.
			if yielded {
				return jobs, healthy, nil
			}
			yielded = true
			runtime.Gosched()
			continue
		}
		jobs = append(jobs, j)
		if l == laneAppend {
			// What an append refuses it refuses before it writes.
			j.err = j.run(ctx, t)
			err = onlyUnavailable(j.err)
		} else {
			err = w.guarded(ctx, t, j)
			healthy = healthy && onlyUnavailable(j.err) == nil
		}
		if err != nil || time.Since(start) > groupTime || t.appended.rows >= groupRows || t.appended.bytes >= groupBytes {
			return jobs, healthy, err
		}
	}
}

// guarded runs a job in a savepoint, so that its failure undoes only what it
// did itself. An error means that the whole transaction is lost.
func (w *writer) guarded(ctx context.Context, t *transaction, j *job) error {
	hooks := len(t.hooks)
	if _, err := t.exec(ctx, "SAVEPOINT job"); err != nil {
		return err
	}
	if j.err = j.run(ctx, t); j.err != nil {
		t.hooks = t.hooks[:hooks]
		if _, err := t.exec(ctx, "ROLLBACK TO job"); err != nil {
			return err
		}
	}
	_, err := t.exec(ctx, "RELEASE job")
	return err
}

func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	db, err := sql.Open("sqlite", w.source)
	if err != nil {
		return unavailable("open store", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return unavailable("open store", errors.Join(err, db.Close()))
	}
	w.db, w.conn, w.statements = db, conn, map[string]*sql.Stmt{}
	return nil
}

// disconnect closes the connection, which rolls back what is not committed.
// Its errors tell nothing that matters: the log replays what was synced.
func (w *writer) disconnect(ctx context.Context, checkpoint bool) {
	if w.conn == nil {
		return
	}
	if checkpoint {
		_, _ = w.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	for _, s := range w.statements {
		_ = s.Close()
	}
	_ = w.conn.Close()
	_ = w.db.Close()
	w.db, w.conn, w.statements = nil, nil, nil
}
