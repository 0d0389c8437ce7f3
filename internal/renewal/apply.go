package renewal

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// start runs an entry's action beside the loop and settles what it brings.
func (t *term) start(ctx context.Context, e *entry) {
	e.busy = true
	calls, lane := e.action.Verb.calls(), e.tenant
	if calls {
		t.running++
		lane.running++
	}
	if !calls {
		if t.storing >= storeJobs {
			t.waiting = append(t.waiting, func() { t.begin(ctx, e, lane, calls) })
			return
		}
		t.storing++
	}
	t.begin(ctx, e, lane, calls)
}

// storeJobs is how many jobs that only store something run at once.
const storeJobs = 64

// begin starts the job of an entry that is busy with it.
func (t *term) begin(ctx context.Context, e *entry, lane *tenant, calls bool) {
	action, situation, pending := e.action, t.situation(e), e.owed()
	terms, wish := t.terms(time.Now(), e), t.wishes[e.record.Name]
	// Taken by value: the configuration may replace them while the job runs.
	to := target{wish: wish, terms: terms}
	held := e.held
	if lane != nil {
		to.tenant, to.policy, to.listed = lane.Tenant, lane.policy, lane.listing != nil
	}
	draw := t.m.cfg.Rand.Float64()
	t.job(ctx, func() func(time.Time) error {
		call, end := callContext(ctx, t.m.cfg.Grace)
		defer end()
		// What is owed comes first: a record must never overwrite a newer one.
		pending, err := t.save(call, pending)
		if err != nil && (action.Verb == Create || action.Verb == Delete) {
			return t.land(e, lane, calls, action, outcome{unsaved: pending, saveErr: err})
		}
		o := t.apply(call, to, situation, action, draw)
		doubt(&o.change, to.listed)
		stamp(&o.change, wish)
		hold(&o.change, held)
		if o.done {
			pending = append(pending, o.change)
		}
		if o.saveErr == nil {
			o.unsaved, o.saveErr = t.save(call, pending)
		} else {
			o.unsaved = append(pending, o.unsaved...)
		}
		return t.land(e, lane, calls, action, o)
	})
}

// land gives the function that takes an outcome into the loop's hands.
func (t *term) land(e *entry, lane *tenant, calls bool, action Action, o outcome) func(time.Time) error {
	return func(now time.Time) error {
		if calls {
			t.running--
			lane.running--
			lane.answered(o.callErr)
		} else if t.storing--; len(t.waiting) > 0 {
			next := t.waiting[0]
			t.waiting = t.waiting[1:]
			t.storing++
			next()
		}
		return t.settle(now, e, action, o)
	}
}

// outcome is what a job brings back.
type outcome struct {
	done    bool // the action was carried out; change is what it did
	change  graph.Change
	asked   time.Time      // the expiry that was asked for, zero when none was
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
	listed bool // in this term
}

// doubt asks for a listing before the next create where a subscription was
// lost and its tenant was not listed in this term. The store may be an older
// copy that was put back: then what it names is gone, and what replaced it
// lives. One listing in a term is enough.
func doubt(c *graph.Change, listed bool) {
	if c.Opened != nil && !c.Forget && c.Record.ID == "" && !listed {
		c.Record.Ambiguous = true
	}
}

// stamp says which tenant the events of a change belong to, which is known
// while somebody wishes for the subscription.
func stamp(c *graph.Change, wish *graph.Wish) {
	if wish == nil {
		return
	}
	for i := range c.Events {
		c.Events[i].TenantID = wish.TenantID
	}
}

// apply does one action. It runs beside the loop.
func (t *term) apply(ctx context.Context, to target, s Situation, a Action, draw float64) outcome {
	var got answer
	var asked time.Time
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
		asked = t.ask(to)
		got = t.write(ctx, Create, graph.OperationCreate, func(ctx context.Context) (graph.Subscription, error) {
			return to.tenant.Client.Create(ctx, t.request(r, to.wish, asked))
		})
	case Renew:
		asked = t.ask(to)
		got = t.write(ctx, Renew, graph.OperationRenew, func(ctx context.Context) (graph.Subscription, error) {
			return to.tenant.Client.Renew(ctx, r.ID, graph.Renewal{ExpiresAt: asked})
		})
	case Check:
		got.sub, got.err = to.tenant.Client.Get(ctx, r.ID)
	case Delete:
		got = t.write(ctx, Delete, graph.OperationDelete, func(ctx context.Context) (sub graph.Subscription, err error) {
			return sub, to.tenant.Client.Delete(ctx, r.ID)
		})
	case Inspect, Seek:
		id := r.FormerID
		if a.Verb == Inspect {
			id = r.ConflictID
		}
		got.sub, got.err = to.tenant.Client.Get(ctx, id)
		got.whose, got.ours = t.m.cfg.Identity.Ours(to.tenant.Name, got.sub)
	case Wait:
		return outcome{} // only to offer the store again what it did not take
	case List, Adopt, Forget, Lapse:
	}
	if got.err == nil && !asked.IsZero() && !got.sub.ExpiresAt.After(time.Now()) {
		// Granted and over already: that is no success, whatever it is.
		op := graph.OperationRenew
		if a.Verb == Create {
			op = graph.OperationCreate
		}
		got.err = &graph.Error{Operation: op, Err: errGrantedPast}
	}
	o := outcome{done: true, change: settle(time.Now(), s, a, got, to.policy, draw), asked: asked, callErr: got.err}
	if limit, named := t.limitOf(time.Now(), r, got.err); named {
		// Not worth a second try: Graph will say it again.
		o.saveErr = fatal(t.m.cfg.Store.LearnLimit(ctx, t.id, limit))
	}
	return o
}

func (t *term) ask(to target) time.Time {
	return Ask(time.Now(), to.wish, to.terms, t.m.cfg.Policy, to.tenant.Scale)
}

var errGrantedPast = errors.New("the granted expiry has passed already")

func (t *term) request(r graph.Record, wish *graph.Wish, expiry time.Time) graph.Subscription {
	id := t.m.cfg.Identity
	return graph.Subscription{
		Resource: wish.Resource, ChangeTypes: wish.ChangeTypes, ImmutableIDs: wish.ImmutableIDs,
		NotificationURL: id.NotificationURL(r.Name, r.Gen), LifecycleNotificationURL: id.LifecycleURL(r.Name, r.Gen),
		ClientState: id.ClientState(r.Name, r.Gen), ExpiresAt: expiry,
	}
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
	if (record.ID == "") != (e.record.ID == "") {
		e.passed = false // it was let pass for this, or is another matter now
	}
	if o.change.Forget {
		if e.debt == nil {
			t.drop(now, e)
			return nil
		}
		record.ID, record.Ambiguous = "", false // nothing is left but to forget it
	}
	t.set(e, record)
	// The other gens of the name too: one may be replaced now.
	for sibling := t.names[record.Name]; sibling != nil; sibling = sibling.next {
		t.wake(now, sibling)
	}
	return nil
}

// storeAnswered notes whether the store takes writes, and when to try again.
func (t *term) storeAnswered(now time.Time, e *entry, o outcome) {
	e.owe(o.unsaved)
	if o.saveErr == nil {
		if t.storeAway {
			t.storeAway = false
			t.log.Info("store takes writes again")
			for other := range t.all {
				if other.debt != nil {
					other.debt.at = now
				}
			}
			t.wakeAll(now)
		}
		return
	}
	if e.debt != nil {
		e.debt.tries++
		e.debt.at = now.Add(backoff(saveBase, saveMax, e.debt.tries, t.m.cfg.Rand.Float64()))
	}
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
	if limit, _ := t.limitOf(now, e.record, o.callErr); limit.Lifetime > 0 {
		t.limits[limitKey{limit.Tenant, limit.Type}] = limit
	}
	if e.tenant == nil {
		return
	}
	fault, _ := errors.AsType[*graph.Error](o.callErr)
	if graph.Classify(o.callErr) == graph.ReasonThrottled || fault != nil && fault.Unsent {
		// Not one subscription's trouble: the whole budget waits.
		e.tenant.writes.pause(latest(now.Add(retryAfter(o.callErr)), o.change.Record.NextAt))
	}
}

// bequeath hands what an older gen leaves to the gen that is wished for: the
// gap that it began, and the place that it held. It is false while that cannot
// be done; then the older one has to stay a little longer.
func (t *term) bequeath(ctx context.Context, e *entry) bool {
	wish := t.wishes[e.record.Name]
	if wish == nil || wish.Gen == e.record.Gen {
		return true
	}
	heir := t.find(graph.Key{Name: wish.Name, Gen: wish.Gen})
	switch {
	case heir == nil, heir.tenant == nil, heir.record.ID != "":
		return true // settling the end closes the gap
	case heir.busy:
		return false
	}
	r := heir.record
	if !e.record.LostAt.IsZero() && r.LostAt.IsZero() {
		r.LostAt, r.LostCause = e.record.LostAt, e.record.LostCause
	}
	if r.Reason == graph.ReasonConflict || r.Reason == graph.ReasonQuota {
		r.NextAt = time.Time{} // what held its place is gone
	}
	if r != heir.record {
		t.set(heir, r)
		t.keep(ctx, heir)
	}
	return true
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
	if o.callErr == nil && !o.asked.IsZero() {
		e.compare(log, o.asked, r.ExpiresAt)
	}
	switch {
	case o.callErr != nil && o.change.Opened == nil && !o.change.Forget:
		if r.Reason != e.record.Reason {
			log.Warn("call failed, trying again", "operation", string(a.Verb), "reason", string(r.Reason),
				"attempt", r.Attempt, "retry_at", r.NextAt, "error", r.Detail)
		}
	case o.change.Opened != nil:
		log.Warn("subscription lost", "cause", string(o.change.Opened.Cause),
			"former_subscription_id", e.record.ID, "lost_since", o.change.Opened.From)
	case a.Verb == Renew:
		log.Info("subscription renewed", "expires_at", r.ExpiresAt, "renew_at", r.RenewAt)
	case a.Verb == Delete:
		log.Info("subscription deleted", "former_subscription_id", e.record.ID)
	case r.ID != "" && e.record.ID == "":
		t.reportBegin(log, a, o)
	}
}

// reportBegin tells of a subscription that lives from now on.
func (t *term) reportBegin(log *slog.Logger, a Action, o outcome) {
	r := o.change.Record
	switch gap := o.change.Closed; {
	case gap != nil:
		t.m.metrics.recreated.WithLabelValues(string(gap.Cause)).Inc()
		log.Info("subscription recreated", "expires_at", r.ExpiresAt, "renew_at", r.RenewAt,
			"gap_seconds", gap.To.Sub(gap.From).Seconds())
	case a.Verb == Create:
		log.Info("subscription created", "expires_at", r.ExpiresAt, "renew_at", r.RenewAt)
	default:
		log.Info("subscription adopted", "expires_at", r.ExpiresAt, "renew_at", r.RenewAt)
	}
}

// grantTolerance is what rounding and a slow answer may make of a lifetime.
const grantTolerance = time.Minute

// compare says once when Graph grants another lifetime than was asked for. The
// plan follows what was granted in any case.
func (e *entry) compare(log *slog.Logger, asked, granted time.Time) {
	was := e.odd
	switch more := granted.Sub(asked); {
	case more > grantTolerance:
		e.odd = "raised"
	case more < -grantTolerance:
		e.odd = "cut"
	default:
		e.odd = ""
	}
	if e.odd == was || e.odd == "" {
		return
	}
	log.Warn("graph granted another lifetime than was asked for, planning by what was granted",
		"asked_until", asked, "expires_at", granted, "lifetime", e.odd)
}
