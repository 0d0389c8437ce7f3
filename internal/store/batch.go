package store

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// batch gathers what one step of the router writes, so that it goes in few
// statements.
type batch struct {
	store *Store
	now   time.Time

	states      map[string][]any // ids by the state they get
	quarantined map[notification.Reason][]any
	bad         map[notification.Reason]int64 // bytes of those
	seen        []notification.EvidenceKey
	last        map[string]int64 // by name, when its last change came
	deliveries  []any
	lifecycle   []any
	repeats     int // of what Graph sent
	hooks       []func()
}

func (b *batch) add(row *stored, f fate, wish *wishEntry) {
	size := int64(len(row.Item))
	if f.state == stateHeld && row.state == stateHeld {
		return
	}
	tally := b.store.tally
	b.hooks = append(b.hooks, func() {
		tally.addRows(row.state, -1, -size)
		tally.addRows(f.state, 1, size)
	})
	switch {
	case f.reason != "":
		if b.quarantined == nil {
			b.quarantined, b.bad = map[notification.Reason][]any{}, map[notification.Reason]int64{}
		}
		b.quarantined[f.reason] = append(b.quarantined[f.reason], row.ID)
		b.bad[f.reason] += size
		return
	case f.state == stateRouted:
		b.route(row, wish)
	case f.state == stateDuplicate && row.Kind != notification.KindOperation:
		b.repeats++
	}
	if b.states == nil {
		b.states = map[string][]any{}
	}
	b.states[f.state] = append(b.states[f.state], row.ID)
}

// route remembers the evidence and makes the deliveries, or the leader's item.
func (b *batch) route(row *stored, wish *wishEntry) {
	b.seen = append(b.seen, row.Evidence...)
	if row.Kind == notification.KindLifecycle {
		b.lifecycle = append(b.lifecycle, row.ID, row.Address.Name, row.Address.Gen,
			row.subscription(), row.Type, micros(row.ReceivedAt))
		return
	}
	if row.Kind == notification.KindChange {
		if b.last == nil {
			b.last = map[string]int64{}
		}
		b.last[row.Address.Name] = max(b.last[row.Address.Name], micros(row.ReceivedAt))
	}
	size, key := int64(len(row.Item)), row.key()
	for _, sink := range wish.sinks {
		if !b.store.cfg.Accepts(sink, &row.Notification) {
			continue
		}
		b.deliveries = append(b.deliveries, row.ID, sink, key, micros(b.now), size, micros(b.now))
		b.hooks = append(b.hooks, func() { b.store.tally.addPending(sink, 1, size); token(b.store.channel(sink)) })
	}
}

func (b *batch) write(ctx context.Context, t *transaction) error {
	for state, ids := range b.states {
		if err := t.execIn(ctx, `UPDATE notification SET state = ? WHERE id IN (?)`, ids, state); err != nil {
			return err
		}
	}
	if err := b.quarantine(ctx, t); err != nil {
		return err
	}
	if err := b.store.engine.remember(ctx, t, b.seen, b.now.Add(b.store.cfg.SeenWindow)); err != nil {
		return err
	}
	if err := b.writeLast(ctx, t); err != nil {
		return err
	}
	if err := t.insert(ctx, `INSERT INTO delivery (notification_id, sink, key, next_at, bytes, created_at)
		VALUES (?)`, 6, b.deliveries); err != nil {
		return err
	}
	if err := t.insert(ctx, `INSERT INTO lifecycle (id, name, gen, subscription_id, event, received_at)
		VALUES (?)`, 6, b.lifecycle); err != nil {
		return err
	}
	if len(b.lifecycle) > 0 {
		t.afterCommit(func() { token(b.store.lifecycle) })
	}
	if n := b.repeats; n > 0 {
		t.afterCommit(func() { b.store.cfg.Verdict("duplicate", notification.ReasonDuplicate, n) })
	}
	t.hooks = append(t.hooks, b.hooks...)
	return nil
}

// writeLast notes when each name got its last change.
func (b *batch) writeLast(ctx context.Context, t *transaction) error {
	values := make([]any, 0, 2*len(b.last))
	for name, at := range b.last {
		values = append(values, name, at)
	}
	return t.insert(ctx, `INSERT INTO last_notification (name, at) VALUES (?)
		ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE excluded.at > last_notification.at`, 2, values)
}

// quarantine moves rows out of what is forwarded.
func (b *batch) quarantine(ctx context.Context, t *transaction) error {
	for reason, ids := range b.quarantined {
		n, size := int64(len(ids)), b.bad[reason]
		if b.store.quarantineFull(count{n, size}) {
			if err := t.execIn(ctx, `DELETE FROM notification WHERE id IN (?)`, ids); err != nil {
				return err
			}
			t.afterCommit(func() {
				b.store.metrics.drop(reason, int(n))
				b.store.cfg.Verdict("quarantined", reason, int(n))
			})
			continue
		}
		if err := t.execIn(ctx, `INSERT INTO quarantine (id, reason, name, gen, subscription_id, tenant,
			received_at, kind, origin, type, evidence, post_id, item, quarantined_at)
			SELECT id, CAST(? AS TEXT), name, gen, subscription_id, tenant,
			received_at, kind, origin, type, evidence, post_id, item, CAST(? AS BIGINT)
			FROM notification WHERE id IN (?)`, ids, string(reason), micros(b.now)); err != nil {
			return err
		}
		if err := t.execIn(ctx, `DELETE FROM notification WHERE id IN (?)`, ids); err != nil {
			return err
		}
		t.afterCommit(func() {
			b.store.tally.addQuarantine(reason, n, size)
			b.store.cfg.Verdict("quarantined", reason, int(n))
		})
	}
	return nil
}
