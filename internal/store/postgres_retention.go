package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// settledRows is how many deliveries one transaction removes.
	settledRows = 5000
	// movedRows is how many rows may outlive their partition at once: they are
	// moved while nothing can be appended.
	movedRows = 10_000
	// lockPatience is how long a change of the partitions waits for those that
	// read them, since everything else waits behind it: appends too, whose
	// callers give up after 2.5 s.
	lockPatience = "500ms"
	// workPatience is how long a statement may take that holds such locks.
	workPatience = "1s"
	// lockNotAvailable and queryCanceled are the server's codes for the end of
	// those.
	lockNotAvailable, queryCanceled = "55P03", "57014"
	// dropAgain is how long a partition that could not be dropped is left alone,
	// and sweepAgain how long the rows that outlived theirs are.
	dropAgain, sweepAgain = 10 * time.Minute, time.Hour
)

// retain makes partitions and drops old ones. One process at a time does: the
// others come again later.
func (e *postgres) retain(ctx context.Context) error {
	if err := e.addPartitions(ctx); err != nil {
		return err
	}
	cfg := &e.store.cfg
	if err := e.removeBefore(ctx, bound(e.now().Add(-cfg.RetainDelivered))); err != nil {
		return err
	}
	if err := e.measureSize(ctx); err != nil || cfg.MaxBytes == 0 {
		return err
	}
	return e.removeBeyond(ctx, cfg.MaxBytes)
}

// removeBefore removes what is done with and older than an id: whole
// partitions, and one by one what those have left over. A partition that is not
// old as a whole waits until it is, unless it is longer than the retention.
func (e *postgres) removeBefore(ctx context.Context, before string) error {
	list, err := partitions(ctx, e)
	if err != nil {
		return err
	}
	var faults []error // one that cannot be removed keeps no other
	for _, p := range list {
		if p.to > before || ctx.Err() != nil {
			break
		}
		faults = append(faults, e.removePartition(ctx, p))
	}
	// It walks over all that is not done with, which may be much.
	swept, pause := partition{"", before}, countShare*e.sweepTook
	if len(list) > 0 && e.store.cfg.RetainDelivered >= span(e.store.cfg.RetainDelivered) && list[0].from <= before {
		// No more than what outlived its partition.
		swept.to, pause = list[0].from, max(pause, sweepAgain)
	}
	if time.Since(e.sweptAt) < pause {
		return errors.Join(faults...)
	}
	began := time.Now()
	faults = append(faults, e.sweep(ctx, swept))
	e.sweptAt = time.Now()
	e.sweepTook = e.sweptAt.Sub(began)
	return errors.Join(faults...)
}

// removeBeyond removes the oldest that is done with until the database is no
// larger than its bound. Single rows leave room that is used again, but none
// that is given back.
func (e *postgres) removeBeyond(ctx context.Context, most int64) error {
	list, err := partitions(ctx, e)
	if err != nil {
		return err
	}
	now := bound(e.now())
	for _, p := range list {
		if e.size() <= most {
			return nil
		}
		if p.to <= now {
			err = e.removePartition(ctx, p)
		} else if p.from <= now {
			err = e.sweep(ctx, p)
		}
		if err == nil {
			err = e.measureSize(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removePartition drops a partition. What is not done with yet goes to the
// default one; when that is much, the rest is removed row by row instead. One
// that could not be dropped is left alone for a while: the look at it is not
// cheap.
func (e *postgres) removePartition(ctx context.Context, p partition) error {
	if time.Now().Before(e.later[p.name()]) {
		return nil
	}
	busy := false
	if err := e.store.repeat(ctx, func(ctx context.Context, t *transaction) (int64, error) {
		if entered, err := lock(ctx, t, lockRetention, false); err != nil || !entered {
			busy = err == nil // another process is at it
			return 0, err
		}
		return t.exec(ctx, `DELETE FROM delivery WHERE id IN (SELECT id FROM delivery
			WHERE notification_id >= ? AND notification_id < ? AND state = 'delivered' LIMIT ?)`, p.from, p.to, settledRows)
	}); err != nil || busy {
		return err
	}
	dropped, err := write(ctx, e, laneRetention, "drop a partition", func(ctx context.Context, t *transaction) (bool, error) {
		return drop(ctx, t, p)
	})
	if dropped {
		delete(e.later, p.name())
		return nil
	}
	e.later[p.name()] = time.Now().Add(dropAgain)
	if err != nil {
		return unlessLocked(err)
	}
	return e.sweep(ctx, p)
}

// beImpatient has a transaction give up soon what it waits for, and what it
// does to others.
func beImpatient(ctx context.Context, t *transaction) error {
	if _, err := t.exec(ctx, `SET LOCAL lock_timeout = '`+lockPatience+`'`); err != nil {
		return err
	}
	_, err := t.exec(ctx, `SET LOCAL statement_timeout = '`+workPatience+`'`)
	return err
}

// unlessLocked takes it for no error that somebody else was in the way, or that
// it would have been in the way of others: the next pass tries again.
func unlessLocked(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (pgErr.Code == lockNotAvailable || pgErr.Code == queryCanceled) {
		return nil
	}
	return err
}

// survivors are the ids of a partition that outlive it; their deliveries that
// are done with have been removed before. Each part is read by an index, and no
// further than a limit; an id may be there twice.
const survivors = `((SELECT id FROM %[1]s WHERE state = 'new' LIMIT %[4]d)
	UNION ALL (SELECT id FROM %[1]s WHERE state = 'held' LIMIT %[4]d)
	UNION ALL (SELECT notification_id FROM delivery WHERE notification_id >= '%[2]s' AND notification_id < '%[3]s' LIMIT %[4]d))`

func drop(ctx context.Context, t *transaction, p partition) (bool, error) {
	if entered, err := lock(ctx, t, lockRetention, false); err != nil || !entered {
		return err == nil, err // another process is at it
	}
	statement := func(text string, limit int) string { return fmt.Sprintf(text, p.name(), p.from, p.to, limit) }
	var rows int64
	if _, err := t.row(ctx, statement(`SELECT count(*) FROM `+survivors+` s`, movedRows+1), nil, &rows); err != nil || rows > movedRows {
		return false, err
	}
	if err := beImpatient(ctx, t); err != nil {
		return false, err
	}
	// A router that is at work would lose what it has read.
	if _, err := lock(ctx, t, lockRouter, true); err != nil {
		return false, err
	}
	if _, err := t.exec(ctx, statement(`ALTER TABLE notification DETACH PARTITION %[1]s`, 0)); err != nil {
		return false, err
	}
	// Nothing is left behind: what would be too much takes too long, and the
	// whole is undone.
	const all = 1 << 40
	if _, err := t.exec(ctx, statement(`INSERT INTO notification SELECT * FROM %[1]s WHERE id IN `+survivors, all)); err != nil {
		return false, err
	}
	_, err := t.exec(ctx, statement(`DROP TABLE %[1]s`, 0))
	return err == nil, err
}

// sweep removes notifications of a span that are done with, one by one. It
// walks once: a query from the start would read what stays again and again.
func (e *postgres) sweep(ctx context.Context, p partition) error {
	for after := p.from; ctx.Err() == nil; {
		next, err := write(ctx, e, laneRetention, "retention", func(ctx context.Context, t *transaction) (string, error) {
			if entered, err := lock(ctx, t, lockRetention, false); err != nil || !entered {
				return "", err // another process is at it
			}
			return removeDone(ctx, t, after, p.to)
		})
		if err != nil || next == "" {
			return err
		}
		after = next
	}
	return nil
}

// ownTables are those of the schema beside the partitions of notification; the
// schema may be one of others too.
const ownTables = `'audit', 'command', 'delivery', 'gap', 'keyring', 'last_notification', 'leader', 'learned_limit', 'lifecycle',
	'outage', 'post', 'quarantine', 'receiving', 'seen', 'shard', 'signing_key', 'subscription', 'subscription_id',
	'tenant_limit', 'wish', '` + versionTable + `'`

// measureSize learns how large the tables are, with their indexes.
func (e *postgres) measureSize(ctx context.Context) error {
	var bytes int64
	_, err := oneRow(ctx, e, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
		AND (i.inhparent = 'notification'::regclass OR c.relname IN (`+ownTables+`))`, nil, []any{&bytes})
	e.bytes.Store(bytes)
	return err
}
