package renewal

import (
	"slices"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// The kinds of steps of a plan.
const (
	StepCreate   = "create"
	StepRecreate = "recreate" // one was lost
	StepReplace  = "replace"  // one of a former gen lives on until then
	StepRenew    = "renew"
	StepDelete   = "delete"
	StepCheck    = "check" // a look at Graph decides
)

// Step is what comes next for one record.
type Step struct {
	Key              graph.Key
	Tenant, Resource string
	Kind             string
	At               time.Time // now or later
	Held             bool      // until a person releases it
}

// Plan says what a leader would do, by what the store knows: what is held
// first, then what comes first. Budgets may make it later, and what Graph
// answers may make it something else. It is pure.
func Plan(now time.Time, wishes []graph.Wish, records []graph.Record) []Step {
	wished := make(map[string]*graph.Wish, len(wishes))
	for i := range wishes {
		wished[wishes[i].Name] = &wishes[i]
	}
	known := map[string][]graph.Record{}
	for _, r := range records {
		known[r.Name] = append(known[r.Name], r)
	}
	for name, wish := range wished {
		if !slices.ContainsFunc(known[name], func(r graph.Record) bool { return r.Gen == wish.Gen }) {
			known[name] = append(known[name], graph.Record{
				Name: name, Gen: wish.Gen, Tenant: wish.Tenant, Resource: wish.Resource, State: graph.StatePending,
			})
		}
	}
	var steps []Step
	for name, gens := range known {
		for _, r := range gens {
			if step, ok := planOne(now, wished[name], r, gens); ok {
				steps = append(steps, step)
			}
		}
	}
	slices.SortFunc(steps, func(a, b Step) int {
		switch {
		case a.Held != b.Held && a.Held:
			return -1
		case a.Held != b.Held:
			return 1
		case !a.At.Equal(b.At):
			return a.At.Compare(b.At)
		}
		return strings.Compare(a.Key.Name+a.Key.Gen, b.Key.Name+b.Key.Gen)
	})
	return steps
}

// planOne gives the next step for a record among all gens of its name; ok is
// false when there is none.
func planOne(now time.Time, wish *graph.Wish, r graph.Record, gens []graph.Record) (step Step, ok bool) {
	s := Situation{Wish: wish, Record: r, MayCreate: true, MayDelete: true}
	other := func(match func(o graph.Record) bool) bool {
		return slices.ContainsFunc(gens, func(o graph.Record) bool { return o.Gen != r.Gen && o.ID != "" && match(o) })
	}
	if wish != nil && wish.Gen != r.Gen {
		s.Replaced = other(func(o graph.Record) bool { return o.Gen == wish.Gen })
	}
	action, at := DecideOne(now, s)
	if action.Verb == Wait {
		if !at.Before(Never()) {
			return Step{}, false
		}
		action, _ = DecideOne(at, s)
	} else {
		at = now
	}
	step = Step{Key: r.Key(), Tenant: r.Tenant, Resource: r.Resource, At: at, Held: r.Held}
	switch action.Verb {
	case Create:
		step.Kind = StepCreate
		if other(func(graph.Record) bool { return true }) {
			step.Kind = StepReplace
		} else if !r.LostAt.IsZero() {
			step.Kind = StepRecreate
		}
	case Lapse:
		step.Kind = StepRecreate
	case Renew:
		step.Kind = StepRenew
	case Delete:
		step.Kind = StepDelete
	case Check, List, Inspect, Seek, Adopt:
		step.Kind = StepCheck
	case Wait, Forget:
		return Step{}, false
	}
	return step, true
}
