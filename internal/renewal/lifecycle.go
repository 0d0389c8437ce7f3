package renewal

import (
	"context"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// The lifecycle events that Graph documents.
const (
	eventReauthorize = "reauthorizationRequired"
	eventRemoved     = "subscriptionRemoved"
	eventMissed      = "missed"
)

const (
	// lifecycleBatch is how many lifecycle items are read at once.
	lifecycleBatch = 100
	// lifecycleAgain is when to look again for items that had to wait.
	lifecycleAgain = time.Second
)

// lifecycle reads what Graph told about subscriptions and reacts to it. What
// it cannot do yet, it does a little later.
func (t *term) lifecycle(ctx context.Context) {
	if t.lifecycleBusy || !t.loaded {
		t.lifecycleAt = time.Now().Add(lifecycleAgain)
		return
	}
	t.lifecycleBusy, t.lifecycleAt = true, time.Time{}
	t.job(ctx, func() func(time.Time) error {
		items, err := t.m.cfg.Store.Lifecycle(ctx, lifecycleBatch)
		var commands []graph.Command
		if err == nil {
			commands, err = t.m.cfg.Store.Commands(ctx)
		}
		return func(now time.Time) error {
			t.lifecycleBusy = false
			if err != nil {
				t.lifecycleAt = now.Add(lifecycleAgain)
				t.log.WarnContext(ctx, "lifecycle items not read, trying again", "error", err.Error())
				return fatal(err)
			}
			t.reactAll(ctx, now, items)
			t.obey(ctx, now, commands)
			return nil
		}
	})
}

// reactAll changes the records that the items name, stores that, and only then
// lets go of the items. An item whose record is busy, or owes the store older
// changes, waits for the next time.
func (t *term) reactAll(ctx context.Context, now time.Time, items []graph.LifecycleItem) {
	done, touched := t.gather(ctx, now, items)
	if len(done) < len(items) || len(items) == lifecycleBatch {
		t.lifecycleAt = now.Add(lifecycleAgain)
	}
	if len(done) == 0 {
		return
	}
	for e := range touched {
		e.busy = true
		t.agenda.remove(e)
		e.tenant.ready.remove(e)
	}
	t.job(ctx, func() func(time.Time) error {
		left := map[*entry][]graph.Change{}
		var err error
		for e, changes := range touched {
			if err == nil {
				changes, err = t.save(ctx, changes)
			}
			left[e] = changes
		}
		if err == nil {
			err = t.m.cfg.Store.SettleLifecycle(ctx, t.id, done)
		}
		return func(now time.Time) error { return t.reactedAll(ctx, now, left, done, err) }
	})
}

// gather reacts to the items that can be reacted to now, in memory.
func (t *term) gather(ctx context.Context, now time.Time, items []graph.LifecycleItem) (done []string, touched map[*entry][]graph.Change) {
	touched = map[*entry][]graph.Change{}
	for _, item := range items {
		e := t.find(graph.Key{Name: item.Name, Gen: item.Gen})
		if e != nil && (e.busy || e.debt != nil) {
			continue
		}
		done = append(done, item.ID)
		if e == nil || e.tenant == nil || t.reacted[item.ID] || !strings.EqualFold(e.record.ID, item.SubscriptionID) {
			continue // done already, or of a former subscription
		}
		if change, ok := react(now, e.record, item, e.tenant.policy); ok {
			doubt(&change, e.tenant.listing != nil)
			stamp(&change, t.wishes[item.Name])
			touched[e] = append(touched[e], change)
			t.log.InfoContext(ctx, "lifecycle event", "subscription", item.Name, "event", item.Event)
			t.set(e, change.Record)
		}
		t.reacted[item.ID] = true
	}
	return done, touched
}

// reactedAll takes up what the store did not take, so that neither a record nor
// a gap is lost; the items stay in the store until it has all of it.
func (t *term) reactedAll(ctx context.Context, now time.Time, left map[*entry][]graph.Change, done []string, err error) error {
	for e, changes := range left {
		e.busy = false
		e.owe(append(e.owed(), changes...))
		t.wake(now, e)
	}
	if err == nil {
		for _, id := range done {
			delete(t.reacted, id)
		}
		return nil
	}
	t.lifecycleAt = now.Add(lifecycleAgain)
	t.log.WarnContext(ctx, "lifecycle reaction not stored, trying again", "error", err.Error())
	return fatal(err)
}

// react says what a lifecycle event changes; ok is false when nothing. It is
// pure. An event that is not known changes nothing.
func react(now time.Time, r graph.Record, item graph.LifecycleItem, p Policy) (c graph.Change, ok bool) {
	switch item.Event {
	case eventReauthorize:
		// A renewal also reauthorizes; a recent one has answered this already.
		if now.Sub(r.GrantedAt) < p.ReauthorizeSpacing || !r.RenewAt.After(now) {
			return graph.Change{}, false
		}
		r.RenewAt = now
		return graph.Change{Record: r}, true
	case eventRemoved:
		return lost(now, r, r.GrantedAt, graph.GapRemoved), true
	case eventMissed:
		from := latest(r.CreatedAt, item.ReceivedAt.Add(-p.MissedWindow))
		c.Record = r
		closeGap(&c, now, graph.Gap{Name: r.Name, From: from, To: item.ReceivedAt, Cause: graph.GapMissed})
		return c, true
	}
	return graph.Change{}, false
}
