package store

import (
	"context"
	"fmt"
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
