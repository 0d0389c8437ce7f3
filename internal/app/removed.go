package app

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

const (
	removedEvery = 5 * time.Second
	removedBatch = 200
	removedLease = time.Minute
)

// buryRemoved turns what waits for a sink that is not configured any more into
// dead letters, where a person finds it. Left alone it would fill the backlog
// until nothing could be received.
func (a *App) buryRemoved(ctx context.Context) error {
	look := time.NewTicker(removedEvery)
	defer look.Stop()
	for {
		totals, err := a.store.Totals(ctx)
		for sink, rows := range totals.Pending {
			if err == nil && rows > 0 && !(*a.sinks.Load())[sink] {
				err = a.bury(ctx, sink)
			}
		}
		if err != nil && ctx.Err() == nil {
			a.component("delivery").WarnContext(ctx, "removed sinks not looked at, trying again", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// bury ends all that is due for a sink.
func (a *App) bury(ctx context.Context, sink string) error {
	count := 0
	for {
		batch, err := a.store.Claim(ctx, sink, removedBatch, removedLease)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		outcomes := make([]notification.Outcome, len(batch))
		for i := range batch {
			outcomes[i] = notification.Outcome{DeliveryID: batch[i].ID, Dead: true, Error: "the sink is not configured any more"}
		}
		if err := a.store.Settle(ctx, outcomes); err != nil {
			return err
		}
		count += len(batch)
	}
	if count > 0 {
		a.component("delivery").WarnContext(ctx, "deliveries of a sink that is not configured any more became dead letters",
			"sink", sink, "count", count)
	}
	return nil
}
