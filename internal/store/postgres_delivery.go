package store

import (
	"context"
	"fmt"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// claim is one statement, and so one transaction. Rows that another claim or
// settlement has in hand are passed over.
func (e *postgres) claim(ctx context.Context, sink string, limit int, lease time.Duration) ([]notification.Delivery, error) {
	if err := e.fit(); err != nil {
		return nil, err
	}
	var claimed []notification.Delivery
	// next_at moves too, so that the index of due ones is also the one of claims
	// to take over.
	err := e.query(ctx, `WITH due AS (
			SELECT id, next_at FROM delivery WHERE sink = ? AND state = 'pending' AND next_at <= `+pgNow+`
			ORDER BY next_at, id LIMIT ? FOR UPDATE SKIP LOCKED
		), claimed AS (
			UPDATE delivery d SET owner = ?, until = `+pgNow+` + ?, next_at = `+pgNow+` + ?
			FROM due WHERE d.id = due.id
			RETURNING d.id, d.sink, d.key, d.attempts, d.notification_id, due.next_at
		)
		SELECT `+notificationColumns+`, c.id, c.sink, c.key, c.attempts
		FROM claimed c JOIN notification n ON n.id = c.notification_id ORDER BY c.next_at, c.id`,
		func(row cursor) error {
			var d notification.Delivery
			err := scanNotification(row, &d.Notification, &d.ID, &d.Sink, &d.Key, &d.Attempts)
			claimed = append(claimed, d)
			return err
		}, sink, limit, e.store.cfg.Owner, lease.Microseconds(), lease.Microseconds())
	if err != nil {
		e.torn.Store(true)
		return nil, fmt.Errorf("claim: %w", err)
	}
	return claimed, nil
}

// giveBack makes free what a claim took whose answer did not come, so that no
// other process has to wait for its end. Nothing that was claimed may be on its
// way any more.
func (e *postgres) giveBack() {
	if !e.torn.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	// What fails here is free when the claim ends.
	_ = e.query(ctx, `UPDATE delivery SET owner = '', until = 0, next_at = `+pgNow+`
		WHERE state = 'pending' AND owner = ? AND next_at > `+pgNow, func(cursor) error { return nil }, e.store.cfg.Owner)
}

// settle is one statement too. The wait until the next try is counted from the
// database's time.
func (e *postgres) settle(ctx context.Context, outcomes []notification.Outcome) (lost int, err error) {
	if err := e.fit(); err != nil {
		return 0, err
	}
	n := len(outcomes)
	ids, waits := make([]int64, n), make([]int64, n)
	states, errs := make([]string, n), make([]string, n)
	for i := range outcomes {
		ids[i], states[i], errs[i] = outcomes[i].DeliveryID, stateAfter(&outcomes[i]), outcomes[i].Error
		if states[i] == deliveryPending {
			waits[i] = time.Until(outcomes[i].Next).Microseconds()
		}
	}
	type settlement struct {
		sink, state string
		bytes       int64
	}
	var settled []settlement
	err = e.query(ctx, `UPDATE delivery d SET state = o.state, attempts = attempts + 1, owner = '', until = 0, last_error = o.error,
			settled_at = CASE WHEN o.state = 'pending' THEN 0 ELSE `+pgNow+` END,
			next_at = CASE WHEN o.state = 'pending' THEN `+pgNow+` + o.wait ELSE 0 END
		FROM unnest(?::bigint[], ?::text[], ?::bigint[], ?::text[]) AS o(id, state, wait, error)
		WHERE d.id = o.id AND d.owner = ? AND d.state = 'pending'
		RETURNING d.sink, d.state, d.bytes`,
		func(row cursor) error {
			var s settlement
			err := row.Scan(&s.sink, &s.state, &s.bytes)
			settled = append(settled, s)
			return err
		}, ids, states, waits, errs, e.store.cfg.Owner)
	if err != nil {
		return 0, fmt.Errorf("settle: %w", err)
	}
	for _, s := range settled {
		e.store.settled(s.sink, s.state, s.bytes)
	}
	return n - len(settled), nil
}

func (e *postgres) nextDue(ctx context.Context, sink string) (at time.Time, found bool, err error) {
	var wait int64
	found, err = oneRow(ctx, e, `SELECT next_at - `+pgNow+` FROM delivery
		WHERE sink = ? AND state = 'pending' ORDER BY next_at LIMIT 1`, []any{sink}, []any{&wait})
	return time.Now().UTC().Add(time.Duration(wait) * time.Microsecond), found, err
}
