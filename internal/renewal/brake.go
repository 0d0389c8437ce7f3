package renewal

import (
	"context"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// A mass action is the deletion of many subscriptions of a tenant, or making
// many anew, at once: by a configuration that lost its second half, a file that
// was not mounted, a public URL with a typing error, or somebody who deleted
// them all at Graph. It is held until a person has looked at it.
//
// What would change passes a gate before it may wait for budget. Everything
// that a reload changes comes to the gate before any of it has passed, so it
// passes as a whole or is held as a whole: the first ten of a mistake are
// mistakes too. What has passed the gate in the last MassWindow counts as well,
// for what comes one by one.

// massive says whether an action is one of those that are counted: the end of a
// subscription that has no successor, and making one anew. The end of a former
// gen or of a duplicate was decided with its successor. What lapsed, as all of
// them do while nobody is there to renew, ended when Graph had said it would:
// there is nothing to look at. It is pure.
func massive(s Situation, a Action, replaces bool) bool {
	switch a.Verb {
	case Delete:
		return !s.Replaced && !strings.Contains(s.Record.Gen, graph.TwinMark)
	case Create:
		return replaces || missing(s.Record)
	case Wait, Renew, Check, List, Adopt, Forget, Lapse, Inspect, Seek:
	}
	return false
}

// missing says that a record had a subscription that ended otherwise than by its
// time or by a pause, which is asked for.
func missing(r graph.Record) bool {
	return !r.LostAt.IsZero() && r.LostCause != graph.GapLapsed && r.LostCause != graph.GapPaused
}

// massLimit is how many of a tenant's subscriptions may change within the
// window, where it has so many of them.
func massLimit(subscriptions int, p Policy) int {
	return max(p.MassFloor, int(p.MassShare*float64(subscriptions)))
}

// gate holds back what changes a tenant's subscriptions, until it is known how
// many there are.
type gate struct {
	waiting map[*entry]struct{}
	passed  []time.Time // when each passed, within the window
	held    int         // entries that wait for a person
	heldAt  time.Time   // when the last one was held in this term
	told    bool        // that some are
	// reloaded says that the configuration was read since the gate was opened,
	// with so many held before; it is looked at then, or at lookAt.
	reloaded bool
	before   int
	lookAt   time.Time
}

// pass lets an entry through.
func (g *gate) pass(now time.Time, e *entry) {
	e.passed = true
	g.passed = append(g.passed, now)
	g.remove(e)
}

func (g *gate) put(e *entry) {
	if g.waiting == nil {
		g.waiting = map[*entry]struct{}{}
	}
	g.waiting[e] = struct{}{}
}

func (g *gate) remove(e *entry) { delete(g.waiting, e) }

// recent counts what has passed within the window.
func (g *gate) recent(now time.Time, window time.Duration) int {
	old := 0
	for old < len(g.passed) && now.Sub(g.passed[old]) >= window {
		old++
	}
	g.passed = g.passed[old:]
	return len(g.passed)
}

// guarded gives what may be done with an entry, and when to look again. gated
// says that the action has to pass the gate first.
func (t *term) guarded(now time.Time, e *entry) (action Action, wake time.Time, gated bool) {
	s := t.situation(e)
	if !e.held && !e.passed {
		action, wake = DecideOne(now, s)
		return action, wake, massive(s, action, t.replaces(e))
	}
	switch {
	case t.wanted(now, e, s):
	case e.held:
		t.release(e)
		s = t.situation(e)
	default:
		e.passed = false
	}
	action, wake = DecideOne(now, s)
	return action, wake, !e.passed && massive(s, action, t.replaces(e))
}

// wanted says whether what was held or let pass is still what an entry comes
// to, whatever stands in its way now. It is as long as a look at Graph has to
// come first.
func (t *term) wanted(now time.Time, e *entry, s Situation) bool {
	s.MayCreate, s.MayDelete = true, true
	action, at := DecideOne(now, s)
	if action.Verb == Wait && at.Before(Never()) {
		action, _ = DecideOne(at, s)
	}
	switch action.Verb {
	case List, Inspect, Seek:
		return true
	case Wait, Create, Renew, Check, Adopt, Delete, Forget, Lapse:
	}
	return massive(s, action, t.replaces(e))
}

// replaces says that an entry without a subscription would take over from
// another gen that has one, or has lost it.
func (t *term) replaces(e *entry) bool {
	if t.m.cfg.AcceptReplacements || e.record.ID != "" {
		return false
	}
	for other := t.names[e.record.Name]; other != nil; other = other.next {
		if other != e && (other.record.ID != "" || missing(other.record)) {
			return true
		}
	}
	return false
}

// census is what a decision about a tenant's gate looks at.
type census struct {
	alive  int      // subscriptions, those that were lost included
	held   []*entry // wait for a person
	busy   int      // of those, with a call under way
	coming int      // will come to the gate soon, and have not yet
}

// openGates opens those at which something waits, or after a reload, and says
// when to look again.
func (t *term) openGates(ctx context.Context, now time.Time) (wake time.Time) {
	counts := map[*tenant]*census{}
	for _, tenant := range t.tenants {
		if g := &tenant.gate; len(g.waiting) > 0 || g.reloaded && !now.Before(g.lookAt) {
			counts[tenant] = &census{}
		}
	}
	if len(counts) > 0 {
		t.count(now, counts)
	}
	for tenant, c := range counts {
		t.open(ctx, now, tenant, c)
	}
	wake = Never()
	for _, tenant := range t.tenants {
		if tenant.gate.reloaded {
			wake = earlier(wake, tenant.gate.lookAt)
		}
	}
	return wake
}

func (t *term) count(now time.Time, counts map[*tenant]*census) {
	for e := range t.all {
		c := counts[e.tenant]
		if c == nil {
			continue
		}
		if e.record.ID != "" || !e.record.LostAt.IsZero() {
			c.alive++
		}
		switch {
		case e.held:
			c.held = append(c.held, e)
			if e.busy {
				c.busy++
			}
		case t.comes(now, e):
			c.coming++
		}
	}
}

// comes says that an entry will come to its gate within the window, which a
// call, a listing or the proof is in the way of.
func (t *term) comes(now time.Time, e *entry) bool {
	if _, there := e.tenant.gate.waiting[e]; there || e.passed {
		return false
	}
	s := t.situation(e)
	s.MayCreate, s.MayDelete = true, true
	s.Record.Ambiguous, s.Record.ConflictID = false, ""
	if s.Record.NextAt.Sub(now) < e.tenant.policy.MassWindow {
		s.Record.NextAt = time.Time{}
	}
	action, _ := DecideOne(now, s)
	return massive(s, action, t.replaces(e))
}

// open lets what waits at a tenant's gate pass, or holds all of it. What comes
// within the window of a hold joins it. What is held already stays held until it
// is not wanted any more or a person says so, or until a reload takes so much of
// it away that the rest may pass.
func (t *term) open(ctx context.Context, now time.Time, tenant *tenant, c *census) {
	g := &tenant.gate
	few := func(n int) bool { return n <= massLimit(c.alive, tenant.policy) }
	coming := len(g.waiting) + c.coming + g.recent(now, tenant.policy.MassWindow)
	joins := len(c.held) > 0 && now.Sub(g.heldAt) < tenant.policy.MassWindow
	// One that is busy is looked at when its job has landed.
	settled := g.reloaded && c.busy == 0
	if settled && len(c.held) < g.before && few(coming+len(c.held)) {
		joins = false
		for _, e := range c.held {
			g.pass(now, e)
			t.release(e)
			t.wake(now, e)
		}
	}
	g.reloaded, g.lookAt = g.reloaded && !settled, now.Add(gateAgain)
	if len(g.waiting) == 0 {
		return
	}
	if !joins && few(coming) {
		for e := range g.waiting {
			g.pass(now, e)
			tenant.ready.put(e)
		}
		return
	}
	if !joins {
		t.tellHold(tenant, len(g.waiting), c.alive)
	}
	g.heldAt = now
	for e := range g.waiting {
		g.remove(e)
		g.held++
		e.held = true
		t.mark(ctx, e)
	}
	t.countHeld()
}

// gateAgain is how long to wait for calls under way before a gate is looked at
// again: a look at all subscriptions is not free.
const gateAgain = time.Second

// mark says on an entry's record whether it is held, and stores that. Nothing
// else may be under way for it.
func (t *term) mark(ctx context.Context, e *entry) {
	r := e.record
	r.Held = e.held
	switch {
	case r.Held:
		r.Reason, r.Detail = graph.ReasonMassChangeHeld, ""
	case r.Reason == graph.ReasonMassChangeHeld:
		r.Reason = ""
	}
	t.set(e, r)
	t.keep(ctx, e)
}

// release ends the hold of one entry. Its record says so when it is looked at
// next.
func (t *term) release(e *entry) {
	e.held = false
	g := &e.tenant.gate
	g.held--
	g.told = g.told && g.held > 0
	t.countHeld()
}

// takeHold has what another leader held stay held.
func (t *term) takeHold(e *entry) {
	if e.held = e.tenant != nil && e.record.Held; e.held {
		e.tenant.gate.held++
	}
}

// tellHold says that a person is needed.
func (t *term) tellHold(tenant *tenant, held, alive int) {
	tenant.gate.told = true
	t.log.Warn("more subscriptions would be deleted or made anew at once than is done unasked, so it is held; renewals go on: "+
		"look at it with graphsubd plan, and correct the configuration, or release it with graphsubd plan --approve=ID, which the plan names",
		"tenant", tenant.Name, "held", held, "limit", massLimit(alive, tenant.policy))
}

// approve releases what is held, if it is what the person has seen.
func (t *term) approve(now time.Time, seen string) (released int, ok bool) {
	var held []*entry
	var keys []graph.Key
	for e := range t.all {
		if e.held {
			held, keys = append(held, e), append(keys, e.record.Key())
		}
	}
	if seen == "" || graph.HoldID(keys) != seen {
		return 0, false
	}
	for _, e := range held {
		e.passed = true
		t.release(e)
		t.wake(now, e)
	}
	return len(held), true
}

func (t *term) countHeld() {
	n := 0
	for _, tenant := range t.tenants {
		n += tenant.gate.held
	}
	t.m.metrics.held.Set(float64(n))
}

// hold says on a record that was changed by a call whether it is held all the
// same.
func hold(c *graph.Change, held bool) {
	c.Record.Held = held
	if held && c.Record.Reason == "" {
		c.Record.Reason = graph.ReasonMassChangeHeld
	}
}
