package renewal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// tenant is a tenant in the loop's hands.
type tenant struct {
	Tenant
	policy  Policy
	ready   *queue
	writes  *budget // of this app in this tenant
	app     *budget // of the app over all tenants
	lists   *budget
	listing *Listing
	// listWanted and listBusy say that somebody needs a listing and that one
	// is under way; listAttempt counts failures in a row.
	listWanted, listBusy bool
	listAt               time.Time
	listAttempt          int
}

// term is the loop's state for one term of leadership. Everything but jobs
// and landed belongs to the loop.
type term struct {
	m    *Manager
	id   int64
	log  *slog.Logger
	jobs sync.WaitGroup
	// landed carries what jobs bring back, as functions for the loop to run.
	landed chan func(now time.Time) error

	wishes   map[string]*graph.Wish
	entries  map[graph.Key]*entry
	names    map[string][]*entry // the same by name: one for each gen
	tenants  map[string]*tenant
	apps     map[string]*budget
	limits   map[string]time.Duration
	agenda   *queue
	soonness *queue
	running  int // calls to Graph under way

	loaded, proven, storeAway bool
	lifecycleBusy             bool
	lifecycleAt               time.Time // when to look again, zero when not asked for
	// reloadBusy says that a reload is under way; reloadAgain that another is
	// to follow, since the wishes changed meanwhile.
	reloadBusy, reloadAgain bool
	reloadAttempt           int
	reloadAt                time.Time // of the next try, zero when none is needed
}

func newTerm(m *Manager, id int64) *term {
	return &term{
		m: m, id: id, log: m.cfg.Logger.With("term", id),
		landed: make(chan func(time.Time) error),
		wishes: map[string]*graph.Wish{}, entries: map[graph.Key]*entry{}, names: map[string][]*entry{},
		tenants: map[string]*tenant{}, apps: map[string]*budget{}, limits: map[string]time.Duration{},
		agenda: newAgenda(), soonness: newSoonness(),
	}
}

// setTenants takes over the tenants that the configuration has now. One that
// stays keeps its budgets, its listing and what waits in it.
func (t *term) setTenants(now time.Time, list []Tenant) {
	for name := range t.tenants {
		if !slices.ContainsFunc(list, func(cfg Tenant) bool { return cfg.Name == name }) {
			delete(t.tenants, name)
		}
	}
	for _, cfg := range list {
		if t.apps[cfg.App] == nil {
			t.apps[cfg.App] = newBudget(now, writesPerApp, cfg.QuotaShare, cfg.Scale)
		}
		known := t.tenants[cfg.Name]
		if known == nil {
			known = &tenant{
				ready:  newReady(),
				writes: newBudget(now, writesPerTenant, cfg.QuotaShare, cfg.Scale),
				lists:  newBudget(now, listsPerTenant, cfg.QuotaShare, cfg.Scale),
			}
			t.tenants[cfg.Name] = known
		}
		known.Tenant, known.policy, known.app = cfg, t.m.cfg.Policy.Compress(cfg.Scale), t.apps[cfg.App]
	}
	for _, e := range t.entries {
		t.place(e)
	}
}

// place joins an entry with its tenant, which may have come, changed or gone.
func (t *term) place(e *entry) {
	to := t.tenants[e.record.Tenant]
	if to == e.tenant {
		return
	}
	if e.tenant != nil {
		e.tenant.ready.remove(e)
	}
	if e.tenant = to; to == nil {
		t.agenda.remove(e)
		t.log.Warn("subscription of a tenant that is not configured is left alone",
			"subscription", e.record.Name, "tenant", e.record.Tenant)
	}
}

// run is the loop: look at what is due, start what the budgets allow, sleep
// until something is due or has landed.
func (t *term) run(ctx context.Context) error {
	t.prove(ctx)
	t.reload(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		wake := t.step(ctx, now)
		timer.Reset(wake.Sub(now))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-t.m.changed:
			t.reload(ctx)
		case <-t.m.cfg.Store.LifecyclePending():
			t.lifecycle(ctx)
		case land := <-t.landed:
			if err := land(time.Now()); err != nil {
				return err
			}
		}
	}
}

// job runs work beside the loop and brings back what it returns, unless the
// term has ended by then.
func (t *term) job(ctx context.Context, work func() func(now time.Time) error) {
	t.jobs.Go(func() {
		land := work()
		select {
		case t.landed <- land:
		case <-ctx.Done():
		}
	})
}

// step does all that can be done now and says when to look again.
func (t *term) step(ctx context.Context, now time.Time) time.Time {
	if !t.reloadAt.IsZero() && !now.Before(t.reloadAt) {
		t.reload(ctx)
	}
	if !t.lifecycleAt.IsZero() && !now.Before(t.lifecycleAt) {
		t.lifecycle(ctx)
	}
	for e := t.agenda.first(); e != nil && !e.wake.After(now); e = t.agenda.first() {
		t.agenda.remove(e)
		t.consider(ctx, now, e)
	}
	wake := now.Add(time.Hour)
	if e := t.agenda.first(); e != nil {
		wake = earlier(wake, e.wake)
	}
	for _, tenant := range t.tenants {
		wake = earlier(wake, t.dispatch(ctx, now, tenant))
	}
	for _, at := range []time.Time{t.reloadAt, t.lifecycleAt} {
		if !at.IsZero() {
			wake = earlier(wake, at)
		}
	}
	t.publish(now)
	return wake
}

// consider decides about one entry and sends it on its way.
func (t *term) consider(ctx context.Context, now time.Time, e *entry) {
	if e.busy || e.tenant == nil {
		return
	}
	action, wake := DecideOne(now, t.situation(e), e.tenant.policy)
	e.action = action
	switch action.Verb {
	case List:
		e.tenant.listWanted = true
	case Create, Renew, Check, Delete:
		e.tenant.ready.put(e)
	case Adopt, Lapse:
		t.start(ctx, e)
	case Forget:
		if len(e.unsaved) == 0 {
			t.start(ctx, e)
			return
		}
		t.waitForStore(ctx, now, e, Never())
	case Wait:
		t.waitForStore(ctx, now, e, wake)
	}
}

// waitForStore lets an entry sleep until wake, or until the store is to be
// offered again what it did not take.
func (t *term) waitForStore(ctx context.Context, now time.Time, e *entry, wake time.Time) {
	if len(e.unsaved) > 0 {
		if !now.Before(e.saveAt) {
			e.action = Action{Verb: Wait}
			t.start(ctx, e)
			return
		}
		wake = earlier(wake, e.saveAt)
	}
	e.wake = wake
	t.agenda.put(e)
}

func (t *term) situation(e *entry) Situation {
	wish := t.wishes[e.record.Name]
	s := Situation{
		Wish: wish, Record: e.record, Listing: e.tenant.listing,
		MayCreate: t.proven && !t.storeAway,
		MayDelete: !t.storeAway,
	}
	if wish != nil && wish.Gen != e.record.Gen {
		current := t.entries[graph.Key{Name: wish.Name, Gen: wish.Gen}]
		s.Replaced = current != nil && current.record.ID != ""
	}
	return s
}

// dispatch starts what waits in a tenant, most urgent first, as far as the
// budgets, the number of parallel calls and what is left of leadership allow,
// and says when that may be more.
func (t *term) dispatch(ctx context.Context, now time.Time, tenant *tenant) time.Time {
	wake := now.Add(time.Hour)
	if tenant.listWanted && !tenant.listBusy {
		if at := latest(tenant.listAt, tenant.lists.next(now)); at.After(now) {
			wake = earlier(wake, at)
		} else {
			tenant.lists.take(now)
			t.list(ctx, tenant)
		}
	}
	for e := tenant.ready.first(); e != nil; e = tenant.ready.first() {
		if t.running >= t.m.cfg.Parallel {
			return wake // a landing call looks again
		}
		at := latest(tenant.writes.next(now), tenant.app.next(now))
		if at = latest(at, t.room(now, e.action.Verb)); at.After(now) {
			return earlier(wake, at)
		}
		tenant.ready.remove(e)
		if action, _ := DecideOne(now, t.situation(e), tenant.policy); action.Verb != e.action.Verb {
			t.wake(now, e) // it waited so long that something else is due
			wake = now
			continue
		}
		tenant.writes.take(now)
		tenant.app.take(now)
		t.start(ctx, e)
	}
	return wake
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wake looks at an entry again, after something changed that a decision looks
// at. One that is busy is looked at when its job has landed.
func (t *term) wake(now time.Time, e *entry) {
	if e.busy || e.tenant == nil {
		return
	}
	e.tenant.ready.remove(e)
	e.wake = now
	t.agenda.put(e)
}

func (t *term) wakeAll(now time.Time) {
	for _, e := range t.entries {
		t.wake(now, e)
	}
}

// add takes an entry for a record into the loop's hands.
func (t *term) add(now time.Time, r graph.Record) {
	e := &entry{record: r, wake: now, atAgenda: -1, atReady: -1, atSoonness: -1}
	t.entries[r.Key()] = e
	t.names[r.Name] = append(t.names[r.Name], e)
	t.m.metrics.countState(r.State, 1)
	t.rank(e)
	t.place(e)
	t.wake(now, e)
}

// set replaces an entry's record.
func (t *term) set(e *entry, r graph.Record) {
	t.m.metrics.countState(e.record.State, -1)
	t.m.metrics.countState(r.State, 1)
	e.record = r
	t.rank(e)
}

func (t *term) drop(e *entry) {
	t.m.metrics.countState(e.record.State, -1)
	t.agenda.remove(e)
	t.soonness.remove(e)
	if e.tenant != nil {
		e.tenant.ready.remove(e)
	}
	delete(t.entries, e.record.Key())
	gens := slices.DeleteFunc(t.names[e.record.Name], func(other *entry) bool { return other == e })
	if t.names[e.record.Name] = gens; len(gens) == 0 {
		delete(t.names, e.record.Name)
	}
}

func (t *term) rank(e *entry) {
	if e.record.ID != "" {
		t.soonness.put(e)
	} else {
		t.soonness.remove(e)
	}
}

func (t *term) publish(now time.Time) {
	earliest := time.Time{}
	if e := t.soonness.first(); e != nil {
		earliest = e.record.ExpiresAt
	}
	t.m.metrics.setEarliestExpiry(earliest)
	for app, budget := range t.apps {
		t.m.metrics.budget.WithLabelValues(app).Set(budget.left(now))
	}
}

// prove waits for the proof that Graph can reach us, tries it again with a
// growing wait, and gives up waiting, not renewing, after ProveFor.
func (t *term) prove(ctx context.Context) {
	t.job(ctx, func() func(time.Time) error {
		err := t.proveFor(ctx, time.Now().Add(t.m.cfg.ProveFor))
		return func(now time.Time) error {
			if err != nil {
				t.log.WarnContext(ctx, "own listener was not reached through the public URL, creating all the same",
					"error", err.Error())
			}
			t.proven = true
			t.wakeAll(now)
			return nil
		}
	})
}

func (t *term) proveFor(ctx context.Context, deadline time.Time) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := t.m.cfg.Prove(ctx)
		if err == nil || ctx.Err() != nil || time.Now().Add(wait).After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// fatal says whether an error of the store ends the term.
func fatal(err error) error {
	if errors.Is(err, graph.ErrTermLost) {
		return fmt.Errorf("renewal: %w", err)
	}
	return nil
}
