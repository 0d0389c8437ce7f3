package store

import (
	"context"
	"fmt"
	"time"
)

// vacuumPages is how many free pages one transaction gives back.
const vacuumPages = 256

// lastID is behind every id.
const lastID = "~"

func (e *sqlite) retain(ctx context.Context) error {
	cfg := &e.store.cfg
	if err := e.sweep(ctx, firstID(time.Now().Add(-cfg.RetainDelivered)), 0); err != nil {
		return err
	}
	if cfg.MaxBytes > 0 {
		if err := e.sweep(ctx, lastID, cfg.MaxBytes); err != nil {
			return err
		}
	}
	return e.vacuum(ctx)
}

// sweep removes notifications that are done with, from the oldest up to an
// id, until the database uses no more than target bytes; 0 asks for all.
//
// It walks once over what is older, since what is not done with yet stays in
// between: a query from the start would read it again and again.
func (e *sqlite) sweep(ctx context.Context, before string, target int64) error {
	after := ""
	for ctx.Err() == nil {
		next, err := write(ctx, e, laneRetention, "retention", func(ctx context.Context, t *transaction) (string, error) {
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
func (e *sqlite) vacuum(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := write(ctx, e, laneRetention, "retention", func(ctx context.Context, t *transaction) (bool, error) {
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
