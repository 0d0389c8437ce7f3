package store

import (
	"context"
	"errors"
	"time"
)

// countShare is how much of the time may go into counting: a long backlog
// takes long to count.
const countShare = 20

// countPace says when to count again. It belongs to the loop that refreshes.
type countPace struct{ next time.Time }

// refresh looks whether the database is still the right one, measures the
// clock, counts what all processes have done, and wakes whoever may have work
// that another process made.
func (e *postgres) refresh(ctx context.Context) error {
	if err := e.inspect(ctx); err != nil {
		return err
	}
	if err := e.measureClock(ctx); err != nil {
		return err
	}
	if err := e.wake(ctx); err != nil {
		return err
	}
	began := time.Now()
	if began.Before(e.counting.next) {
		return nil
	}
	err := e.store.tally.load(ctx, e.store.reader)
	e.counting.next = time.Now().Add(countShare * time.Since(began))
	return err
}

// inspect has writes refused while the settings of a connection that is in use
// do not keep what is committed, or once a graphsubd of another major has
// changed the schema.
func (e *postgres) inspect(ctx context.Context) error {
	var fsync, commit string
	var version int64
	if _, err := oneRow(ctx, e, `SELECT current_setting('fsync'), current_setting('synchronous_commit'),
		(SELECT coalesce(max(version_id), 0) FROM `+versionTable+` WHERE is_applied)`,
		nil, []any{&fsync, &commit, &version}); err != nil {
		return err
	}
	err := errors.Join(keeps(fsync, commit), fits(version, e.newest, place))
	if err == nil {
		e.unfit.Store(nil)
	} else {
		e.unfit.Store(&err)
	}
	return err
}

// fit says why nothing may be written, nil when it may.
func (e *postgres) fit() error {
	if err := e.unfit.Load(); err != nil {
		return unavailable("use the database", *err)
	}
	return nil
}

// maxRoundTrip is how slow an answer may be that still tells the time.
const maxRoundTrip = time.Second

// measureClock learns how far the database's clock is ahead.
func (e *postgres) measureClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	conn, err := e.pool.Acquire(ctx) // its time is none of the clock's
	if err != nil {
		return unavailable("connect", err)
	}
	defer conn.Release()
	begin := time.Now()
	var now int64
	if _, err := oneRow(ctx, pgSession{conn}, `SELECT `+pgNow, nil, []any{&now}); err != nil {
		return err
	}
	trip := time.Since(begin)
	if trip > maxRoundTrip {
		return nil
	}
	ahead := instant(now).Sub(begin.Add(trip / 2))
	former := time.Duration(e.skew.Swap(ahead.Microseconds())) * time.Microsecond
	if warning := skewWarning(ahead); warning != "" && former != 0 && skewWarning(former) == "" {
		e.store.cfg.Logger.WarnContext(ctx, "database setting", "warning", warning)
	}
	return nil
}

// wake gives a token to each sink that has a due delivery and to
// the leader when a lifecycle item, a command or an outage waits.
func (e *postgres) wake(ctx context.Context) error {
	s := e.store
	channels := s.channels()
	sinks := make([]string, 0, len(channels))
	for sink := range channels {
		sinks = append(sinks, sink)
	}
	if err := e.query(ctx, `SELECT s FROM unnest(?::text[]) s WHERE EXISTS (SELECT 1 FROM delivery
		WHERE sink = s AND state = 'pending' AND next_at <= `+pgNow+`)`, func(row cursor) error {
		var sink string
		err := row.Scan(&sink)
		if c := channels[sink]; c != nil {
			token(c)
		}
		return err
	}, sinks); err != nil {
		return err
	}
	var waits bool
	if _, err := oneRow(ctx, e, `SELECT EXISTS (SELECT 1 FROM lifecycle) OR EXISTS (SELECT 1 FROM command WHERE state = 'pending')
		OR EXISTS (SELECT 1 FROM outage WHERE settled_at = 0)`, nil, []any{&waits}); err != nil {
		return err
	}
	if waits {
		token(s.lifecycle)
	}
	return nil
}
