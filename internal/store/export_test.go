package store

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Exec runs one statement in the writer, in a transaction of its own lane.
func Exec(ctx context.Context, s *Store, query string, args ...any) error {
	_, err := write(ctx, s.engine, laneSink, "test", func(ctx context.Context, t *transaction) (int64, error) {
		return t.exec(ctx, query, args...)
	})
	return err
}

// LimitPages lets the database grow by no more than some pages, as a full
// disk would, until the writer's connection is opened anew.
func LimitPages(ctx context.Context, s *Store, more int64) error {
	_, err := write(ctx, s.engine, laneSink, "test", func(ctx context.Context, t *transaction) (int64, error) {
		var pages int64
		if _, err := t.row(ctx, `PRAGMA page_count`, nil, &pages); err != nil {
			return 0, err
		}
		return t.exec(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages+more))
	})
	return err
}

// Stall keeps the writer busy until release is closed; it returns when the
// writer has begun.
func Stall(ctx context.Context, s *Store, release <-chan struct{}) (ended <-chan error) {
	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := write(ctx, s.engine, laneSink, "test", func(context.Context, *transaction) (int, error) {
			close(begun)
			<-release
			return 0, nil
		})
		done <- err
	}()
	<-begun
	return done
}

// LeadSlowly runs a write of a term that has looked at the term and goes on
// when release is closed; looked is closed when it has.
func LeadSlowly(ctx context.Context, s *Store, term int64, looked, release chan struct{}) error {
	return s.lead(ctx, term, "test", func(ctx context.Context, t *transaction) error {
		close(looked)
		<-release
		_, err := t.exec(ctx, `INSERT INTO signing_key (fingerprint, added_at) VALUES ('slow', 0)`)
		return err
	})
}

// CountUnrouted is the query that is asked most often.
const CountUnrouted = countUnrouted

// Retain runs one pass of the retention.
func Retain(ctx context.Context, s *Store) error { return s.engine.retain(ctx) }

// MeasureSize has a store on PostgreSQL learn its size.
func MeasureSize(t *testing.T, s *Store) {
	t.Helper()
	if e, ok := s.engine.(*postgres); !ok || e.measureSize(t.Context()) != nil {
		t.Fatal("the size is not known")
	}
}

// SetAhead has a store on PostgreSQL believe that the database's clock is so
// much ahead, until it is measured again.
func SetAhead(s *Store, ahead time.Duration) {
	if e, ok := s.engine.(*postgres); ok {
		e.skew.Store(ahead.Microseconds())
	}
}

// Partition is the name of the partition between two instants, and its bounds.
func Partition(from, to time.Time) (name, begin, end string) {
	p := partition{bound(from), bound(to)}
	return p.name(), p.from, p.to
}

// LockMigration is the lock under which the schema is brought up to date.
const LockMigration = lockMigration

// ShrinkSeen has a SQLite store keep less evidence in memory.
func ShrinkSeen(ctx context.Context, s *Store, size, kept int) error {
	return seenOf(ctx, s, func(l *seenLog) { l.size, l.kept = size, kept })
}

// LoseSeen has a SQLite store read its evidence again, as after a commit that
// nobody knows the outcome of.
func LoseSeen(ctx context.Context, s *Store) error { return seenOf(ctx, s, (*seenLog).forget) }

// SeenKeys gives how many keys a SQLite store keeps in memory, and whether any
// are in the table.
func SeenKeys(ctx context.Context, s *Store) (n int, moved bool, err error) {
	err = seenOf(ctx, s, func(l *seenLog) {
		for _, g := range l.generations {
			n += len(g.until)
		}
		moved = l.moved
	})
	return n, moved, err
}

func seenOf(ctx context.Context, s *Store, use func(*seenLog)) error {
	e, _ := s.engine.(*sqlite)
	return e.transact(ctx, laneRouter, func(context.Context, *transaction) error {
		use(&e.evidence)
		return nil
	})
}
