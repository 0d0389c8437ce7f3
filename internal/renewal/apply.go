package renewal

import (
	"context"
	"errors"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// start runs an entry's action beside the loop and settles what it brings.
func (t *term) start(ctx context.Context, e *entry) {
	e.busy = true
	calls := e.action.Verb == Create || e.action.Verb == Renew || e.action.Verb == Check || e.action.Verb == Delete
	if calls {
		t.running++
	}
	action, situation, pending := e.action, t.situation(e), e.unsaved
	terms, wish := t.terms(&e.record), t.wishes[e.record.Name]
	// Taken by value: the configuration may replace them while the job runs.
	tenant, policy := e.tenant.Tenant, e.tenant.policy
	draw := t.m.cfg.Rand.Float64()
	t.job(ctx, func() func(time.Time) error {
		call, end := callContext(ctx, t.m.cfg.Grace)
		defer end()
		o := t.apply(call, target{tenant, policy, wish, terms}, situation, action, draw)
		if o.done {
			pending = append(pending, o.change)
		}
		if o.saveErr == nil {
			o.unsaved, o.saveErr = t.save(call, pending)
		} else {
			o.unsaved = append(pending, o.unsaved...)
		}
		return func(now time.Time) error {
			if calls {
				t.running--
			}
			return t.settle(now, e, action, o)
		}
	})
}

// outcome is what a job brings back.
type outcome struct {
	done    bool // the action was carried out; change is what it did
	change  graph.Change
	callErr error          // Graph's
	unsaved []graph.Change // what the store did not take
	saveErr error
}

// target is what an action is applied to and by.
type target struct {
	tenant Tenant
	policy Policy
	wish   *graph.Wish
	terms  Terms
}

// apply does one action. It runs beside the loop.
func (t *term) apply(ctx context.Context, to target, s Situation, a Action, draw float64) outcome {
	var got answer
	r := s.Record
	switch a.Verb {
	case Create:
		// Announced before it is sent: should the answer be lost, the next
		// leader looks before it creates.
		intent := r
		intent.Ambiguous = true
		if err := t.m.cfg.Store.Save(ctx, t.id, graph.Change{Record: intent}); err != nil {
			// The record as it was is offered again: that tells when the store is back.
			return outcome{saveErr: err, unsaved: []graph.Change{{Record: r}}}
		}
		got = t.write(ctx, Create, graph.OperationCreate, func(ctx context.Context) (graph.Subscription, error) {
			return to.tenant.Client.Create(ctx, t.request(r, to.wish, t.ask(to)))
		})
	case Renew:
		got = t.write(ctx, Renew, graph.OperationRenew, func(ctx context.Context) (graph.Subscription, error) {
			return to.tenant.Client.Renew(ctx, r.ID, graph.Renewal{ExpiresAt: t.ask(to)})
		})
	case Check:
		got.sub, got.err = to.tenant.Client.Get(ctx, r.ID)
	case Delete:
		got = t.write(ctx, Delete, graph.OperationDelete, func(ctx context.Context) (sub graph.Subscription, err error) {
			return sub, to.tenant.Client.Delete(ctx, r.ID)
		})
	case Wait:
		return outcome{} // only to offer the store again what it did not take
	case List, Adopt, Forget, Lapse:
	}
	o := outcome{done: true, change: settle(time.Now(), s, a, got, to.policy, draw), callErr: got.err}
	if limit, kind := t.limitOf(r.Resource, got.err); limit > 0 {
		// Not worth a second try: Graph will say it again.
		o.saveErr = fatal(t.m.cfg.Store.LearnLimit(ctx, t.id, kind, limit))
	}
	return o
}

func (t *term) ask(to target) time.Time {
	return Ask(time.Now(), to.wish, to.terms, t.m.cfg.Policy, to.tenant.Scale)
}

// limitOf reads from an answer that a lifetime was refused which one Graph
// takes for that kind of resource, 0 when it was about something else.
func (t *term) limitOf(resource string, err error) (limit time.Duration, kind string) {
	var fault *graph.Error
	if !errors.As(err, &fault) || graph.Classify(fault) != graph.ReasonExpiryLimited {
		return 0, ""
	}
	rule, _ := t.m.cfg.Rules.For(resource)
	if limit, named := fault.ExpiryLimit(); named {
		return limit, rule.Type
	}
	return t.m.cfg.Policy.LimitFloor, rule.Type
}

func (t *term) request(r graph.Record, wish *graph.Wish, expiry time.Time) graph.Subscription {
	id := t.m.cfg.Identity
	return graph.Subscription{
		Resource: wish.Resource, ChangeTypes: wish.ChangeTypes, ImmutableIDs: wish.ImmutableIDs,
		NotificationURL: id.NotificationURL(r.Name, r.Gen), LifecycleNotificationURL: id.LifecycleURL(r.Name, r.Gen),
		ClientState: id.ClientState(r.Name, r.Gen), ExpiresAt: expiry,
	}
}

func (t *term) terms(r *graph.Record) Terms {
	rule, _ := t.m.cfg.Rules.For(r.Resource)
	return Terms{Rule: rule, Learned: t.limits[rule.Type]}
}

// save stores changes in order and gives back those that the store did not
// take.
func (t *term) save(ctx context.Context, changes []graph.Change) ([]graph.Change, error) {
	for i, change := range changes {
		if err := t.m.cfg.Store.Save(ctx, t.id, change); err != nil {
			return changes[i:], err
		}
	}
	return nil, nil
}

// settle takes an outcome into the loop's hands.
func (t *term) settle(now time.Time, e *entry, a Action, o outcome) error {
	e.busy = false
	if err := fatal(o.saveErr); err != nil {
		return err
	}
	t.storeAnswered(now, e, o)
	if !o.done {
		t.wake(now, e)
		return nil
	}
	t.report(e, a, o)
	t.learn(now, e, o)
	record := o.change.Record
	if o.change.Forget {
		if len(e.unsaved) == 0 {
			t.drop(e)
			return nil
		}
		record.ID, record.Ambiguous = "", false // nothing is left but to forget it
	}
	t.set(e, record)
	// The other gens of the name too: one may be replaced now.
	for _, sibling := range t.names[record.Name] {
		t.wake(now, sibling)
	}
	return nil
}

// storeAnswered notes whether the store takes writes, and when to try again.
func (t *term) storeAnswered(now time.Time, e *entry, o outcome) {
	e.unsaved = o.unsaved
	if o.saveErr == nil {
		e.saveTries = 0
		if t.storeAway {
			t.storeAway = false
			t.log.Info("store takes writes again")
			for _, other := range t.entries {
				other.saveAt = now
			}
			t.wakeAll(now)
		}
		return
	}
	e.saveTries++
	e.saveAt = now.Add(backoff(saveBase, saveMax, e.saveTries, t.m.cfg.Rand.Float64()))
	if !t.storeAway {
		t.storeAway = true
		t.log.Warn("store does not take writes, renewing from memory; nothing is created or deleted",
			"error", o.saveErr.Error())
	}
}

// How long to wait before a change is offered again to a store that is away.
const (
	saveBase = time.Second
	saveMax  = 30 * time.Second
)

// learn takes from an answer what concerns more than its record: a limit that
// Graph named, or a wait that the whole budget has to keep.
func (t *term) learn(now time.Time, e *entry, o outcome) {
	if limit, kind := t.limitOf(e.record.Resource, o.callErr); limit > 0 {
		t.limits[kind] = limit
	}
	if e.tenant != nil && graph.Classify(o.callErr) == graph.ReasonThrottled {
		e.tenant.writes.pause(latest(now.Add(retryAfter(o.callErr)), o.change.Record.NextAt))
	}
}

// callContext gives a context for a call that outlives its term by grace, so
// that a stop does not leave the outcome of a call open. Lost leadership ends
// it at once.
func callContext(ctx context.Context, grace time.Duration) (context.Context, func()) {
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, graph.ErrLeaseLost) || errors.Is(cause, graph.ErrTermLost) {
			cancel(cause)
			return
		}
		time.AfterFunc(grace, func() { cancel(cause) })
	})
	return call, func() {
		stop()
		cancel(nil)
	}
}

// report logs what happened to a subscription and counts it.
func (t *term) report(e *entry, a Action, o outcome) {
	r := o.change.Record
	log := t.log.With("subscription", r.Name, "resource", r.Resource, "subscription_id", r.ID)
	if a.Verb == Renew {
		t.m.metrics.countRenewal(o.callErr)
	}
	switch {
	case o.callErr != nil && o.change.Opened == nil && !o.change.Forget:
		if r.Reason != e.record.Reason {
			log.Warn("call failed, trying again", "operation", string(a.Verb), "reason", string(r.Reason),
				"attempt", r.Attempt, "retry_at", r.NextAt, "error", r.Detail)
		}
		return
	case o.change.Opened != nil:
		log.Warn("subscription lost", "cause", string(o.change.Opened.Cause),
			"former_subscription_id", e.record.ID, "lost_since", o.change.Opened.From)
		return
	}
	switch a.Verb {
	case Create, Adopt:
		if gap := o.change.Closed; gap != nil {
			t.m.metrics.recreated.WithLabelValues(string(gap.Cause)).Inc()
			log.Info("subscription recreated", "expires_at", r.ExpiresAt, "renew_at", r.RenewAt,
				"gap_seconds", gap.To.Sub(gap.From).Seconds())
			return
		}
		if a.Verb == Adopt {
			log.Info("subscription adopted", "expires_at", r.ExpiresAt, "renew_at", r.RenewAt)
			return
		}
		log.Info("subscription created", "expires_at", r.ExpiresAt, "renew_at", r.RenewAt)
	case Renew:
		log.Info("subscription renewed", "expires_at", r.ExpiresAt, "renew_at", r.RenewAt)
	case Delete:
		log.Info("subscription deleted", "former_subscription_id", e.record.ID)
	case Wait, Check, List, Forget, Lapse:
	}
}
