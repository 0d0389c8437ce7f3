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
	// sweepAt is when to list although nobody asked, to find what was lost or
	// doubled.
	sweepAt    time.Time
	gate       gate
	running    int          // calls under way
	trouble    int          // calls in a row that brought no answer
	listReason graph.Reason // why the last one failed, "" when it did not
}

// slots is how many calls may be under way: fewer and fewer while none brings
// an answer, so that a tenant that hangs holds up no other.
func (t *tenant) slots() int { return max(1, slotsPerTenant>>min(t.trouble, 8)) }

// slotsPerTenant suffices for the documented 25 writes a second where each
// takes a little more than a second.
const slotsPerTenant = 32

func (t *tenant) answered(err error) {
	fault, failed := errors.AsType[*graph.Error](err)
	if failed && fault.Status == 0 || failed && fault.Unsent {
		t.trouble++
		return
	}
	t.trouble = 0
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
	names    map[string]*entry // by name; the gens of a name are linked
	tenants  map[string]*tenant
	apps     map[string]*budget
	limits   map[limitKey]graph.LearnedLimit
	passed   map[string][]time.Time // what has passed the gates of tenants that went
	results  map[string]result      // of commands, by id
	agenda   *queue
	soonness *queue
	running  int // calls to Graph under way

	loaded, proven, storeAway bool
	lifecycleBusy             bool
	lifecycleAt               time.Time // when to look again, zero when not asked for
	outageBusy                bool
	outageAt                  time.Time // when to try again, zero when not asked for
	silence                   silence
	// reacted are the lifecycle items that were reacted to and are not settled.
	reacted map[string]bool
	// storing is how many jobs have only the store to do with; waiting are
	// those that come after them.
	storing int
	waiting []func()
	// reloadBusy says that a reload is under way; reloadAgain that another is
	// to follow, since the wishes changed meanwhile.
	reloadBusy, reloadAgain bool
	reloadAttempt           int
	reloadAt                time.Time       // of the next try, zero when none is needed
	forecastAt              time.Time       // when to look ahead next, zero before the records are known
	short                   map[string]bool // apps whose budget was foreseen not to suffice
}

func newTerm(m *Manager, id int64) *term {
	return &term{
		m: m, id: id, log: m.cfg.Logger.With("term", id),
		landed: make(chan func(time.Time) error),
		wishes: map[string]*graph.Wish{}, names: map[string]*entry{},
		tenants: map[string]*tenant{}, apps: map[string]*budget{}, limits: map[limitKey]graph.LearnedLimit{}, passed: map[string][]time.Time{}, results: map[string]result{}, reacted: map[string]bool{}, short: map[string]bool{},
		agenda: newAgenda(), soonness: newSoonness(),
	}
}

// setTenants takes over the tenants that the configuration has now. One that
// stays keeps its budgets, its listing and what waits in it.
func (t *term) setTenants(now time.Time, list []Tenant) {
	for name, tenant := range t.tenants {
		if !slices.ContainsFunc(list, func(cfg Tenant) bool { return cfg.Name == name }) {
			t.passed[name] = tenant.gate.passed
			delete(t.tenants, name)
		}
	}
	for _, cfg := range list {
		if app := t.apps[cfg.App]; app == nil || app.share != cfg.QuotaShare {
			t.apps[cfg.App] = newBudget(now, writesPerApp, cfg.QuotaShare, cfg.Scale)
		}
		known := t.tenants[cfg.Name]
		if known == nil {
			known = &tenant{
				ready:  newReady(),
				writes: newBudget(now, writesPerTenant, cfg.QuotaShare, cfg.Scale),
				lists:  newBudget(now, listsPerTenant, cfg.QuotaShare, cfg.Scale),
			}
			known.policy = t.m.cfg.Policy.Compress(cfg.Scale)
			known.gate.passed = t.passed[cfg.Name]
			known.sweepAt = now.Add(t.sweepEvery(known))
			t.tenants[cfg.Name] = known
		} else if known.QuotaShare != cfg.QuotaShare {
			known.writes = newBudget(now, writesPerTenant, cfg.QuotaShare, cfg.Scale)
			known.lists = newBudget(now, listsPerTenant, cfg.QuotaShare, cfg.Scale)
		}
		if cfg.Skew != nil {
			cfg.Client = skewed{cfg.Client, cfg.Skew}
		}
		known.Tenant, known.policy, known.app = cfg, t.m.cfg.Policy.Compress(cfg.Scale), t.apps[cfg.App]
	}
	for e := range t.all {
		t.place(e)
	}
}

// sweepEvery draws the time to the next sweep, so that thousands of tenants
// spread out.
func (t *term) sweepEvery(tenant *tenant) time.Duration {
	every := tenant.policy.SweepEvery
	return every/2 + time.Duration(t.m.cfg.Rand.Float64()*float64(every/2))
}

// place joins an entry with its tenant, which may have come, changed or gone.
func (t *term) place(e *entry) {
	to := t.tenants[e.record.Tenant]
	if to == e.tenant && to != nil {
		return
	}
	if e.tenant != nil {
		e.tenant.ready.remove(e)
		e.tenant.gate.remove(e)
	}
	e.tenant, e.passed = to, false
	e.orphan = e.orphan && to == nil
	t.takeHold(e)
	t.rank(e)
}

// follow moves an entry to the tenant of its wish, whose name in the
// configuration has changed: a gen is that of one tenant, whatever its name.
func (t *term) follow(e *entry) (moved bool) {
	wish := t.wishes[e.record.Name]
	if wish == nil || wish.Gen != e.record.Gen || wish.Tenant == e.record.Tenant || t.tenants[wish.Tenant] == nil {
		return false
	}
	r := e.record
	r.Tenant = wish.Tenant
	t.set(e, r)
	t.place(e)
	return true
}

// run is the loop: look at what is due, start what the budgets allow, sleep
// until something is due or has landed.
func (t *term) run(ctx context.Context) error {
	t.prove(ctx)
	t.reload(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now().Round(0) // the wall clock: Graph's expiries are instants of it
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
			t.tellOutages(ctx)
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

// longestSleep bounds how late the loop notices that the machine was paused,
// during which its timers stood still.
const longestSleep = 15 * time.Minute

// chore is what is done now and then beside the entries: next gives when.
type chore struct {
	next func() time.Time // zero for never
	do   func(ctx context.Context, now time.Time)
}

func (t *term) chores() []chore {
	plain := func(do func(ctx context.Context)) func(context.Context, time.Time) {
		return func(ctx context.Context, _ time.Time) { do(ctx) }
	}
	return []chore{
		{func() time.Time { return t.reloadAt }, plain(t.reload)},
		{func() time.Time { return t.lifecycleAt }, plain(t.lifecycle)},
		{func() time.Time { return t.outageAt }, plain(t.tellOutages)},
		{func() time.Time { return t.silence.at }, plain(t.hear)},
		{func() time.Time { return t.forecastAt }, t.foresee},
	}
}

// step does all that can be done now and says when to look again.
func (t *term) step(ctx context.Context, now time.Time) time.Time {
	chores := t.chores()
	for _, c := range chores {
		if at := c.next(); !at.IsZero() && !now.Before(at) {
			c.do(ctx, now)
		}
	}
	for e := t.agenda.first(); e != nil && !e.wake.After(now); e = t.agenda.first() {
		t.agenda.remove(e)
		t.consider(ctx, now, e)
	}
	wake := earlier(now.Add(longestSleep), t.openGates(ctx, now))
	for _, tenant := range t.tenants {
		wake = earlier(wake, t.dispatch(ctx, now, tenant))
	}
	if e := t.agenda.first(); e != nil {
		wake = earlier(wake, e.wake)
	}
	for _, c := range chores {
		if at := c.next(); !at.IsZero() {
			wake = earlier(wake, at)
		}
	}
	t.publish(now)
	return wake
}

// consider decides about one entry and sends it on its way.
func (t *term) consider(ctx context.Context, now time.Time, e *entry) {
	if e.busy {
		return
	}
	if t.follow(e) {
		t.keep(ctx, e)
		return
	}
	if e.tenant == nil {
		t.considerOrphan(ctx, now, e)
		return
	}
	action, wake, gated := t.guarded(now, e)
	if e.record.Held != e.held {
		t.mark(ctx, e) // and looked at again when that is stored
		return
	}
	e.action = action
	if gated {
		e.tenant.gate.put(e)
		return
	}
	switch action.Verb {
	case List:
		e.tenant.listWanted = true
	case Create, Renew, Check, Delete, Inspect, Seek:
		e.tenant.ready.put(e)
	case Adopt, Lapse:
		t.start(ctx, e)
	case Forget:
		switch {
		case e.debt != nil:
			t.waitForStore(ctx, now, e, Never())
		case t.bequeath(ctx, e):
			t.start(ctx, e)
		default:
			e.wake = now.Add(time.Second)
			t.agenda.put(e)
		}
	case Wait:
		t.waitForStore(ctx, now, e, wake)
	}
}

// waitForStore lets an entry sleep until wake, or until the store is to be
// offered again what it did not take.
func (t *term) waitForStore(ctx context.Context, now time.Time, e *entry, wake time.Time) {
	if e.debt != nil {
		if !now.Before(e.debt.at) {
			e.action = Action{Verb: Wait}
			t.start(ctx, e)
			return
		}
		wake = earlier(wake, e.debt.at)
	}
	e.wake = wake
	t.agenda.put(e)
}

// considerOrphan decides about a record whose tenant is not configured: nobody
// can call Graph for it, but once it has expired there is nothing left.
func (t *term) considerOrphan(ctx context.Context, now time.Time, e *entry) {
	if !e.orphan {
		e.orphan = true
		t.log.WarnContext(ctx, "subscription of a tenant that is not configured is left alone",
			"subscription", e.record.Name, "tenant", e.record.Tenant)
	}
	if e.record.Held {
		t.mark(ctx, e) // its tenant's gate is gone
		return
	}
	if e.record.ID != "" && now.Before(e.record.ExpiresAt) {
		e.wake = e.record.ExpiresAt
		t.agenda.put(e)
		return
	}
	if e.debt != nil {
		t.waitForStore(ctx, now, e, Never())
		return
	}
	e.action = Action{Verb: Forget}
	t.start(ctx, e)
}

func (t *term) situation(e *entry) Situation {
	wish := t.wishes[e.record.Name]
	s := Situation{
		Wish: wish, Record: e.record,
		MayCreate: t.proven && !t.storeAway && !e.held,
		MayDelete: !t.storeAway && !e.held,
	}
	if e.tenant != nil {
		s.Listing = e.tenant.listing
	}
	if wish != nil && wish.Gen != e.record.Gen {
		current := t.find(graph.Key{Name: wish.Name, Gen: wish.Gen})
		if s.Replaced = current != nil && current.record.ID != "" && !current.ending(); s.Replaced {
			s.ReplacedAt = current.record.CreatedAt
		}
	}
	return s
}

// dispatch starts what waits in a tenant, most urgent first, as far as the
// budgets, the number of parallel calls and what is left of leadership allow,
// and says when that may be more.
func (t *term) dispatch(ctx context.Context, now time.Time, tenant *tenant) time.Time {
	wake := now.Add(longestSleep)
	if !now.Before(tenant.sweepAt) {
		tenant.listWanted = true
		tenant.sweepAt = now.Add(t.sweepEvery(tenant))
	}
	wake = earlier(wake, tenant.sweepAt)
	if tenant.listWanted && !tenant.listBusy {
		if at := latest(tenant.listAt, tenant.lists.next(now)); at.After(now) {
			wake = earlier(wake, at)
		} else {
			tenant.lists.take(now)
			t.list(ctx, tenant)
		}
	}
	for e := tenant.ready.first(); e != nil; e = tenant.ready.first() {
		if t.running >= t.m.cfg.Parallel || tenant.running >= tenant.slots() {
			return wake // a landing call looks again
		}
		at := latest(tenant.writes.next(now), tenant.app.next(now))
		if at = latest(at, t.room(now, e.action.Verb)); at.After(now) {
			return earlier(wake, at)
		}
		tenant.ready.remove(e)
		if action, _ := DecideOne(now, t.situation(e)); action.Verb != e.action.Verb {
			t.wake(now, e) // it waited so long that something else is due
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
	if e.busy {
		return
	}
	if e.tenant != nil {
		e.tenant.ready.remove(e)
		e.tenant.gate.remove(e)
	}
	e.wake = now
	t.agenda.put(e)
}

func (t *term) wakeAll(now time.Time) {
	for e := range t.all {
		t.wake(now, e)
	}
}

// add takes an entry for a record into the loop's hands.
func (t *term) add(now time.Time, r graph.Record) {
	e := &entry{record: r, wake: now, atAgenda: -1, atReady: -1, atSoonness: -1}
	e.next = t.names[r.Name]
	t.names[r.Name] = e
	t.m.metrics.countState(r.State, 1)
	t.place(e)
	t.wake(now, e)
}

// ending says that the subscription is being deleted at this moment.
func (e *entry) ending() bool { return e.busy && e.action.Verb == Delete }

// pend makes an entry for a wish that has none.
func (t *term) pend(now time.Time, wish *graph.Wish, ambiguous bool) {
	if wish == nil || t.find(graph.Key{Name: wish.Name, Gen: wish.Gen}) != nil {
		return
	}
	t.add(now, graph.Record{
		Name: wish.Name, Gen: wish.Gen, Tenant: wish.Tenant, Resource: wish.Resource,
		State: graph.StatePending, Ambiguous: ambiguous,
	})
}

// find gives the entry of a name and gen, nil when there is none.
func (t *term) find(key graph.Key) *entry {
	for e := t.names[key.Name]; e != nil; e = e.next {
		if e.record.Gen == key.Gen {
			return e
		}
	}
	return nil
}

// all is a sequence of all entries, of which the present one may be dropped.
func (t *term) all(yield func(*entry) bool) {
	for _, e := range t.names {
		for e != nil {
			next := e.next
			if !yield(e) {
				return
			}
			e = next
		}
	}
}

// unlink takes an entry out of those of its name.
func (t *term) unlink(e *entry) {
	name := e.record.Name
	if first := t.names[name]; first == e {
		if t.names[name] = e.next; e.next == nil {
			delete(t.names, name)
		}
		return
	}
	for other := t.names[name]; other != nil; other = other.next {
		if other.next == e {
			other.next = e.next
			return
		}
	}
}

// set replaces an entry's record.
func (t *term) set(e *entry, r graph.Record) {
	t.m.metrics.countState(e.record.State, -1)
	t.m.metrics.countState(r.State, 1)
	e.record = r
	t.rank(e)
}

func (t *term) drop(now time.Time, e *entry) {
	t.m.metrics.countState(e.record.State, -1)
	t.agenda.remove(e)
	t.soonness.remove(e)
	if e.tenant != nil {
		e.tenant.ready.remove(e)
		e.tenant.gate.remove(e)
		if e.held {
			e.tenant.gate.held--
			t.countHeld()
		}
	}
	t.unlink(e)
	// Somebody may have wished for it again while it was being let go.
	t.pend(now, t.wishes[e.record.Name], false)
}

func (t *term) rank(e *entry) {
	if e.record.ID != "" && e.tenant != nil {
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
