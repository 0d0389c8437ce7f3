package renewal

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// silenceEvery is the least time between two looks for silence. A look reads
// when the last change of each name came, which is more than nothing.
const silenceEvery = time.Minute

// silence is what the loop knows of subscriptions for which nothing came.
type silence struct {
	busy  bool
	at    time.Time       // of the next look, zero for never
	names map[string]bool // those that are silent
}

// hear looks which subscriptions are silent, where somebody asked for that.
// What it finds follows from the store alone, so that a restart neither
// forgets nor invents it.
func (t *term) hear(ctx context.Context) {
	if t.silence.busy {
		// Not at once again and again while the store takes its time.
		t.silence.at = time.Now().Add(silenceEvery)
		return
	}
	t.silence.at = time.Time{}
	if !t.anyMayBeSilent() {
		t.heard(ctx, time.Now(), graph.Receiving{}, nil)
		return
	}
	t.silence.busy = true
	t.job(ctx, func() func(time.Time) error {
		store := t.m.cfg.Store
		last, err := store.LastNotifications(ctx)
		var receiving graph.Receiving
		if err == nil {
			receiving, err = store.Receiving(ctx)
		}
		return func(now time.Time) error {
			t.silence.busy = false
			if err != nil {
				t.silence.at = now.Add(silenceEvery) // others log what ails the store
				return fatal(err)
			}
			t.heard(ctx, now, receiving, last)
			return nil
		}
	})
}

func (t *term) anyMayBeSilent() bool {
	for _, wish := range t.wishes {
		if wish.SilentAfter > 0 {
			return true
		}
	}
	return false
}

// heard takes a look's outcome, tells what is new in it, and says when to look
// again: when the next one may fall silent, and soon while one is.
func (t *term) heard(ctx context.Context, now time.Time, receiving graph.Receiving, last map[string]time.Time) {
	former := t.silence.names
	t.silence.names = map[string]bool{}
	for name, wish := range t.wishes {
		e := t.find(graph.Key{Name: name, Gen: wish.Gen})
		if wish.SilentAfter <= 0 || e == nil {
			continue
		}
		since, silent := receiving.SilentSince(now, wish, e.record, last[name])
		next := now.Add(silenceEvery)
		if !silent && !since.IsZero() {
			next = latest(next, since.Add(wish.SilentAfter))
		}
		if t.silence.at.IsZero() || next.Before(t.silence.at) {
			t.silence.at = next
		}
		if !silent {
			continue
		}
		t.silence.names[name] = true
		if !former[name] {
			t.log.WarnContext(ctx, "subscription is silent", "subscription", name, "resource", wish.Resource,
				"subscription_id", e.record.ID, "reason", string(graph.ReasonSilent), "silent_since", since,
				"remedy", "check that the resource still changes, and that publicURL can be reached from the internet")
		}
	}
	for name := range former {
		if !t.silence.names[name] {
			t.log.InfoContext(ctx, "subscription is no longer silent", "subscription", name)
		}
	}
	t.m.metrics.silent.Set(float64(len(t.silence.names)))
}
