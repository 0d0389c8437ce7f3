package renewal

import (
	"context"
	"slices"
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
		return replaces || !s.Record.LostAt.IsZero() && s.Record.LostCause != graph.GapLapsed
	case Wait, Renew, Check, List, Adopt, Forget, Lapse, Inspect, Seek:
	}
	return false
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
	// reloaded says that the configuration was read since the gate was opened.
	reloaded bool
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
func (t *term) guarded(ctx context.Context, now time.Time, e *entry) (action Action, wake time.Time, gated bool) {
	s := t.situation(e)
	marked := e.record.Reason == graph.ReasonMassChangeHeld
	if !e.held && !e.passed && !marked {
		action, wake = DecideOne(now, s)
		return action, wake, massive(s, action, t.replaces(e))
	}
	// What it would come to, whatever stands in its way now.
	free := s
	free.MayCreate, free.MayDelete = true, true
	want, _ := DecideOne(now, free)
	wanted := massive(free, want, t.replaces(e))
	switch {
	case e.held && !wanted:
		t.release(ctx, e)
		s = t.situation(e)
	case e.held:
	case marked && !wanted:
		t.mark(ctx, e, "")
	case !wanted && e.record.ID != "":
		e.passed = false // what was let pass is not wanted any more
	}
	action, wake = DecideOne(now, s)
	return action, wake, !e.passed && massive(s, action, t.replaces(e))
}

// replaces says that an entry without a subscription would take over from
// another gen that has one.
func (t *term) replaces(e *entry) bool {
	if t.m.cfg.AcceptReplacements || e.record.ID != "" {
		return false
	}
	for other := t.names[e.record.Name]; other != nil; other = other.next {
		if other != e && other.record.ID != "" {
			return true
		}
	}
	return false
}

// open lets what waits at a tenant's gate pass, or holds all of it. What is held
// already stays held until it is not wanted any more or a person says so, or
// until a reload leaves so little of it that it may pass.
func (t *term) open(ctx context.Context, now time.Time, tenant *tenant) {
	g := &tenant.gate
	if len(g.waiting) == 0 && !g.reloaded {
		return
	}
	held := t.heldOf(tenant)
	coming := len(g.waiting) + len(held) + g.recent(now, tenant.policy.MassWindow)
	few := coming <= tenant.policy.MassFloor || coming <= massLimit(t.alive(tenant), tenant.policy)
	switch {
	case few && len(held) == 0:
		for e := range g.waiting {
			g.pass(now, e)
			tenant.ready.put(e)
		}
	case few && g.reloaded:
		for _, e := range held {
			g.pass(now, e)
			t.release(ctx, e)
		}
	}
	// One that is being stored is looked at when it has landed.
	g.reloaded = g.reloaded && slices.ContainsFunc(held, func(e *entry) bool { return e.held && e.busy })
	if len(g.waiting) == 0 {
		return
	}
	if len(held) == 0 {
		t.log.WarnContext(ctx, "more subscriptions would be deleted or made anew at once than is done unasked, so it is held; renewals go on: "+
			"look at it with graphsubd plan, and correct the configuration, or release it with graphsubd plan --approve",
			"tenant", tenant.Name, "held", len(g.waiting), "limit", massLimit(t.alive(tenant), tenant.policy))
	}
	for e := range g.waiting {
		g.remove(e)
		g.held++
		e.held = true
		t.mark(ctx, e, graph.ReasonMassChangeHeld)
	}
	t.countHeld()
}

// heldOf gives the entries of a tenant that are held.
func (t *term) heldOf(tenant *tenant) (list []*entry) {
	if tenant.gate.held == 0 {
		return nil
	}
	for e := range t.all {
		if e.tenant == tenant && e.held {
			list = append(list, e)
		}
	}
	return list
}

// alive counts the subscriptions of a tenant, those that were lost included.
func (t *term) alive(tenant *tenant) (n int) {
	for e := range t.all {
		if e.tenant == tenant && (e.record.ID != "" || !e.record.LostAt.IsZero()) {
			n++
		}
	}
	return n
}

// mark gives a record a reason, and stores it.
func (t *term) mark(ctx context.Context, e *entry, reason graph.Reason) {
	r := e.record
	r.Reason, r.Detail = reason, ""
	t.set(e, r)
	t.keep(ctx, e)
}

// release ends the hold of one entry.
func (t *term) release(ctx context.Context, e *entry) {
	e.held = false
	e.tenant.gate.held--
	t.countHeld()
	if e.record.Reason == graph.ReasonMassChangeHeld && !e.busy {
		t.mark(ctx, e, "")
	}
}

// approve releases what is held, if it is what the person has seen.
func (t *term) approve(ctx context.Context, seen string) (released int, ok bool) {
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
		t.release(ctx, e)
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

// hold says on a record that was changed by a call that its end is held all the
// same.
func hold(c *graph.Change, held bool) {
	if held && c.Record.Reason == "" && !c.Forget {
		c.Record.Reason = graph.ReasonMassChangeHeld
	}
}
