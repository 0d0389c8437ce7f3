package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// engine is one database. What both do alike stands in statements that both
// understand, run by a transaction or the reader; the methods here are where
// they differ.
type engine interface {
	querier
	// transact runs one write in a transaction and waits for its end. An error
	// of run undoes it. The lane says how urgent it is.
	transact(ctx context.Context, l lane, run func(ctx context.Context, t *transaction) error) error
	// append stores rows, all or none; a nil means that they are durable.
	append(ctx context.Context, a *addition) error
	claim(ctx context.Context, sink string, limit int, lease time.Duration) ([]notification.Delivery, error)
	// settle gives how many outcomes were of deliveries that others hold now.
	settle(ctx context.Context, outcomes []notification.Outcome) (lost int, err error)
	nextDue(ctx context.Context, sink string) (at time.Time, found bool, err error)
	// enterRouter has the transaction alone decide on rows until it ends. It is
	// false when another process does; with wait it waits for that one's end.
	enterRouter(ctx context.Context, t *transaction, wait bool) (entered bool, err error)
	// seen gives the keys that belong to what was routed within the window, and
	// remember adds some; both are part of a transaction that has entered the
	// router.
	seen(ctx context.Context, t *transaction, keys []notification.EvidenceKey, now time.Time) (evidenceSet, error)
	remember(ctx context.Context, t *transaction, keys []notification.EvidenceKey, until time.Time) error
	// locking makes a query lock what it reads until the transaction ends.
	locking(query string) string
	// refresh learns what other processes did.
	refresh(ctx context.Context) error
	// retain removes what is done with since before an instant and, while the
	// database is larger than its bound, more of that.
	retain(ctx context.Context) error
	// size is that of the database in bytes, of late.
	size() int64
	// shared says that other processes may write to the database too.
	shared() bool
	close() error
}

// lane is a priority of writes, the most urgent first.
type lane int

const (
	laneAppend lane = iota
	laneLeader
	laneSink // claims and how they ended
	laneRouter
	laneRetention
	lanes
)

// addition is what one Append stores, and what that adds to the backlog.
type addition struct {
	rows    []notification.Row
	adds    count
	reserve bool // only lifecycle items: it may go beyond the bound
}

// write runs one write and waits for the end of its transaction. When ctx ends
// first it gives an error, and the write may or may not take place.
func write[T any](ctx context.Context, e engine, l lane, what string,
	run func(ctx context.Context, t *transaction) (T, error),
) (T, error) {
	var result, none T
	err := e.transact(ctx, l, func(ctx context.Context, t *transaction) (err error) {
		result, err = run(ctx, t)
		return err
	})
	if err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	return result, nil
}

// onlyUnavailable keeps an error of the database and drops a refusal.
func onlyUnavailable(err error) error {
	if errors.Is(err, graph.ErrStoreUnavailable) {
		return err
	}
	return nil
}

// token wakes whoever waits on a channel of capacity 1.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
