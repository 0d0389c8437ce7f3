package store

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// lifecycleReserve is the part of the backlog's bound that only lifecycle
// items may go beyond it: losing one can mean losing a subscription.
const lifecycleReserve = 10

const insertNotification = `INSERT INTO notification
	(id, state, name, gen, subscription_id, tenant, received_at, kind, origin, type, evidence, post_id, item)
	VALUES (?, 'new', ?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?)`

const insertQuarantine = `INSERT INTO quarantine
	(id, reason, name, gen, subscription_id, tenant, received_at, kind, origin, type, evidence, post_id, item, quarantined_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?, ?)`

// Append stores rows, all or none, in one transaction and one sync with those
// of other callers. A nil means that they are durable. The errors are ErrFull
// and graph.ErrStoreUnavailable; when ctx ends while waiting the error is of
// the latter kind, and the rows may still be stored; so the caller leaves rows
// as they are, also after an error.
func (s *Store) Append(ctx context.Context, rows []notification.Row) error {
	if len(rows) == 0 {
		return nil
	}
	adds, reserve := weigh(rows)
	// Asked here too, so that a full store does not make its callers wait.
	if s.full(adds, count{}, reserve) {
		return ErrFull
	}
	_, err := write(ctx, s.queue, laneAppend, "append", func(ctx context.Context, t *transaction) (struct{}, error) {
		return struct{}{}, s.append(ctx, t, rows, adds, reserve)
	})
	return err
}

// weigh gives what rows add to the backlog, and whether they may use the
// reserve: only when nothing but lifecycle items is among them, since a POST
// is stored whole or not at all.
func weigh(rows []notification.Row) (adds count, reserve bool) {
	reserve = true
	for i := range rows {
		if rows[i].Reason != "" {
			continue
		}
		adds.add(1, int64(len(rows[i].Item)))
		reserve = reserve && rows[i].Kind == notification.KindLifecycle
	}
	return adds, reserve
}

// full says whether the bound leaves no room beside the backlog and what the
// current transaction has appended.
func (s *Store) full(adds, appended count, reserve bool) bool {
	if adds.rows == 0 {
		return false
	}
	total := s.tally.backlog()
	total.add(adds.rows+appended.rows, adds.bytes+appended.bytes)
	beyond := func(n, bound int64) bool {
		if reserve {
			bound += bound / lifecycleReserve
		}
		return bound > 0 && n > bound
	}
	return beyond(total.rows, s.cfg.MaxBacklogRows) || beyond(total.bytes, s.cfg.MaxBacklogBytes)
}

// append runs in the writer.
func (s *Store) append(ctx context.Context, t *transaction, rows []notification.Row, adds count, reserve bool) error {
	if s.full(adds, t.appended, reserve) {
		return ErrFull
	}
	now := time.Now()
	quarantined := map[notification.Reason]int64{}
	for i := range rows {
		if err := s.insertRow(ctx, t, &rows[i], now); err != nil {
			return err
		}
		if rows[i].Reason != "" {
			quarantined[rows[i].Reason]++
		}
	}
	t.appended.add(adds.rows, adds.bytes)
	t.afterCommit(func() {
		s.tally.addRows(stateNew, adds.rows, adds.bytes)
		for reason, n := range quarantined {
			s.tally.addQuarantine(reason, n)
		}
		token(s.arrived)
	})
	return nil
}

func (s *Store) insertRow(ctx context.Context, t *transaction, row *notification.Row, now time.Time) error {
	id, err := s.ids.next(now)
	if err != nil {
		return unavailable("append", err)
	}
	received := micros(row.ReceivedAt)
	if received == 0 {
		received = micros(now)
	}
	values := []any{
		row.Address.Name, row.Address.Gen, row.SubscriptionID, row.TenantID, received,
		string(row.Kind), string(row.Origin), row.Type, packEvidence(row.Evidence), blob(row.Item),
	}
	if row.Reason == "" {
		_, err = t.exec(ctx, insertNotification, append([]any{id}, values...)...)
		return err
	}
	values = append([]any{id, string(row.Reason)}, values...)
	_, err = t.exec(ctx, insertQuarantine, append(values, micros(now))...)
	return err
}

// insertEvent stores an operational event, which is routed like a change. No
// bound applies: a consumer must learn of a gap.
func (s *Store) insertEvent(ctx context.Context, t *transaction, gen string, event *graph.Event, now time.Time) error {
	row, err := eventRow(gen, event)
	if err != nil {
		return err
	}
	if err := s.insertRow(ctx, t, &row, now); err != nil {
		return err
	}
	t.afterCommit(func() {
		s.tally.addRows(stateNew, 1, int64(len(row.Item)))
		token(s.arrived)
	})
	return nil
}

// blob is b for a column that takes no NULL, which nil would be.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// packEvidence is the stored form of evidence.
func packEvidence(evidence notification.Evidence) []byte {
	packed := make([]byte, 0, len(evidence)*len(notification.EvidenceKey{}))
	for _, key := range evidence {
		packed = append(packed, key[:]...)
	}
	return packed
}

func unpackEvidence(packed []byte) notification.Evidence {
	const size = len(notification.EvidenceKey{})
	var evidence notification.Evidence
	for ; len(packed) >= size; packed = packed[size:] {
		evidence = append(evidence, notification.EvidenceKey(packed[:size]))
	}
	return evidence
}
