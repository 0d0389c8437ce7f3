package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Connections of one process. Appends have their own, so that nothing else
// makes them wait.
const (
	flushers   = 2
	otherConns = 8
)

// The locks that transactions hold, of the kind that ends with them. Each is
// one of its schema.
const (
	lockMigration = 0x67736201 + iota
	lockRouter
	lockRetention
)

// operationTimeout bounds what is asked of the server: one that has vanished
// closes no connection.
const operationTimeout = 30 * time.Second

// rollbackTimeout is how long a lost transaction's connection is waited for.
const rollbackTimeout = 2 * time.Second

// postgres is the engine of two processes or more.
type postgres struct {
	store    *Store
	pool     *pgxpool.Pool
	appends  *pgxpool.Pool
	groups   *groups
	flushing sync.WaitGroup

	newest   int64                 // version of the schema that this code knows
	unfit    atomic.Pointer[error] // why nothing may be written, nil when it may
	torn     atomic.Bool           // a claim may have taken place of which nobody knows
	skew     atomic.Int64          // microseconds that the database's clock is ahead
	bytes    atomic.Int64          // what size gives
	counting countPace

	// What follows belongs to the retention.
	later     map[string]time.Time // when to look again at a partition that could not be dropped
	sweptAt   time.Time            // when rows were removed one by one
	sweepTook time.Duration        // how long that was
}

func openPostgres(ctx context.Context, s *Store) (engine, error) {
	settings, err := newPGSettings(s.cfg.Postgres)
	if err != nil {
		return nil, err
	}
	if err := checkServer(ctx, settings, s.cfg.Logger); err != nil {
		return nil, err
	}
	newest, err := migratePostgres(ctx, settings, s.cfg.Logger)
	if err != nil {
		return nil, err
	}
	e := &postgres{store: s, groups: newGroups(), newest: newest, later: map[string]time.Time{}}
	if e.pool, err = settings.pool(ctx, otherConns); err != nil {
		return nil, err
	}
	if e.appends, err = settings.pool(ctx, flushers); err != nil {
		e.pool.Close()
		return nil, err
	}
	if err := errors.Join(e.measureClock(ctx), e.measureSize(ctx), e.addPartitions(ctx)); err != nil {
		e.pool.Close()
		e.appends.Close()
		return nil, err
	}
	// The flushers outlive the call that opened them: close ends them.
	detached := context.WithoutCancel(ctx)
	for range flushers {
		e.flushing.Go(func() { e.flushAll(detached) })
	}
	return e, nil
}

func (e *postgres) close() error {
	e.groups.close()
	e.flushing.Wait()
	e.giveBack()
	e.appends.Close()
	e.pool.Close()
	return nil
}

// query reads by any connection; a statement that writes is a transaction of its
// own.
func (e *postgres) query(ctx context.Context, query string, scan func(cursor) error, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return pgSession{e.pool}.query(ctx, query, scan, args...)
}

// transact runs a write by a connection of its own.
func (e *postgres) transact(ctx context.Context, _ lane, run func(ctx context.Context, t *transaction) error) error {
	if err := e.fit(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	start := time.Now()
	pooled, err := e.pool.Acquire(ctx)
	if err != nil {
		return unavailable("connect", err)
	}
	defer pooled.Release() // which closes one that is not as it was
	conn := pooled.Conn()
	at, err := begin(ctx, conn)
	if err != nil {
		return err
	}
	began := time.Now()
	t := &transaction{session: pgSession{conn}, now: func() time.Time { return instant(at).Add(time.Since(began)) }}
	if err := run(ctx, t); err != nil {
		rollback(ctx, pooled)
		return err
	}
	tag, err := conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("the server answered %s", tag)
	}
	if err != nil {
		return unavailable("commit", err)
	}
	e.store.metrics.commit.Observe(time.Since(start).Seconds())
	for _, hook := range t.hooks {
		hook()
	}
	return nil
}

// rollback gives back a connection that can still be used. Its error tells
// nothing: Release closes the connection then, which rolls back too.
func rollback(ctx context.Context, pooled *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if !pooled.Conn().IsClosed() {
		_, _ = pooled.Exec(ctx, "ROLLBACK")
	}
}

// enterRouter takes a lock: one process decides at a time, since two could
// neither see each other's repeats nor keep the order of one resource.
func (e *postgres) enterRouter(ctx context.Context, t *transaction, wait bool) (entered bool, err error) {
	return lock(ctx, t, lockRouter, wait)
}

// lock takes a lock of this schema until the transaction ends.
func lock(ctx context.Context, t *transaction, class int64, wait bool) (locked bool, err error) {
	if wait {
		_, err := t.exec(ctx, `SELECT pg_advisory_xact_lock(CAST(? AS INTEGER), hashtext(current_schema()::text))`, class)
		return err == nil, err
	}
	_, err = t.row(ctx, `SELECT pg_try_advisory_xact_lock(CAST(? AS INTEGER), hashtext(current_schema()::text))`, []any{class}, &locked)
	return locked, err
}

func (e *postgres) locking(query string) string { return query + " FOR UPDATE" }

func (e *postgres) shared() bool { return true }

func (e *postgres) size() int64 { return e.bytes.Load() }

// ahead is how far the database's clock was ahead when it was measured last.
func (e *postgres) ahead() time.Duration { return time.Duration(e.skew.Load()) * time.Microsecond }

// now is the database's clock.
func (e *postgres) now() time.Time { return time.Now().Add(e.ahead()) }
