package store

import (
	"context"
	"fmt"

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
	rows, dropped := s.admit(rows)
	a := weigh(rows)
	// Asked here too, so that a full store does not make its callers wait.
	if s.full(a, count{}) {
		return ErrFull
	}
	if len(rows) > 0 {
		if err := s.engine.append(ctx, a); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	for reason, n := range dropped {
		s.metrics.drop(reason, n)
	}
	return nil
}

// admit leaves out the rows that the quarantine has no room for. They are
// counted and nothing else: a flood of them must neither fill the disk nor hold
// up what is good, and answered 503 it would come again for hours.
func (s *Store) admit(rows []notification.Row) (admitted []notification.Row, dropped map[notification.Reason]int) {
	var bad count
	for i := range rows {
		if rows[i].Reason != "" {
			bad.add(1, int64(len(rows[i].Item)))
		}
	}
	if bad.rows == 0 || !s.quarantineFull(bad) {
		return rows, nil
	}
	dropped = map[notification.Reason]int{}
	for i := range rows {
		if reason := rows[i].Reason; reason != "" {
			dropped[reason]++
		} else {
			admitted = append(admitted, rows[i])
		}
	}
	return admitted, dropped
}

// quarantineFull says whether the bound leaves no room for more. What is under
// way at the same time is not looked at, so it may be passed by that.
func (s *Store) quarantineFull(more count) bool {
	total := s.tally.quarantined()
	total.add(more.rows, more.bytes)
	full := s.cfg.MaxQuarantineRows > 0 && total.rows > s.cfg.MaxQuarantineRows ||
		s.cfg.MaxQuarantineBytes > 0 && total.bytes > s.cfg.MaxQuarantineBytes
	if full != s.quarantineWasFull.Swap(full) && full {
		s.cfg.Logger.Warn("quarantine is full, what would go there is counted only")
	}
	return full
}

// weigh gives what rows add to the backlog, and whether they may use the
// reserve: only when nothing but lifecycle items is among them, since a POST
// is stored whole or not at all.
func weigh(rows []notification.Row) *addition {
	a := &addition{rows: rows, reserve: true}
	for i := range rows {
		if rows[i].Reason != "" {
			continue
		}
		a.adds.add(1, int64(len(rows[i].Item)))
		a.reserve = a.reserve && rows[i].Kind == notification.KindLifecycle
	}
	return a
}

// full says whether the bound leaves no room beside the backlog and what is
// being appended.
func (s *Store) full(a *addition, appended count) bool {
	if a.adds.rows == 0 {
		return false
	}
	total := s.tally.backlog()
	total.add(a.adds.rows+appended.rows, a.adds.bytes+appended.bytes)
	beyond := func(n, bound int64) bool {
		if a.reserve {
			bound += bound / lifecycleReserve
		}
		return bound > 0 && n > bound
	}
	return beyond(total.rows, s.cfg.MaxBacklogRows) || beyond(total.bytes, s.cfg.MaxBacklogBytes)
}

// added counts what has become durable.
func (s *Store) added(a *addition) {
	s.tally.addRows(stateNew, a.adds.rows, a.adds.bytes)
	for i := range a.rows {
		if reason := a.rows[i].Reason; reason != "" {
			s.tally.addQuarantine(reason, 1, int64(len(a.rows[i].Item)))
		}
	}
	token(s.arrived)
}

func (s *Store) insertRow(ctx context.Context, t *transaction, row *notification.Row) error {
	now := t.now()
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
func (s *Store) insertEvent(ctx context.Context, t *transaction, gen string, event *graph.Event) error {
	row, err := eventRow(gen, event)
	if err != nil {
		return err
	}
	if err := s.insertRow(ctx, t, &row); err != nil {
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
