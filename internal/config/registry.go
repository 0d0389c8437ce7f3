package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// registry holds the declared names of one kind and where they stand.
type registry struct {
	kind  string
	names []string
	at    map[string]place
	used  map[string]bool
	// incomplete is set when some name could not be read, so that a reference
	// to it is not a fault of its own.
	incomplete bool
}

func newRegistry(kind string) *registry {
	return &registry{kind: kind, at: map[string]place{}, used: map[string]bool{}}
}

// declare checks a name and takes it.
func (r *registry) declare(a place, name string) {
	checkLabel(a, name)
	if name == "" {
		r.incomplete = true
		return
	}
	if first, ok := r.at[name]; ok {
		a.fault("another "+r.kind+" is named "+quote(name)+", at "+first.String(), "give each "+r.kind+" a name of its own")
		return
	}
	r.names = append(r.names, name)
	r.at[name] = a
}

// refer faults a name that is not declared.
func (r *registry) refer(a place, name string) {
	if name == "" {
		a.fault("is missing", "name a declared "+r.kind)
		return
	}
	if _, ok := r.at[name]; ok {
		r.used[name] = true
		return
	}
	if r.incomplete {
		return
	}
	remedy := "declare it, or name a declared " + r.kind
	if near := nearest(name, r.names); near != "" {
		remedy = "did you mean " + quote(near) + "?"
	}
	a.fault("no "+r.kind+" is named "+quote(name)+"; "+r.declared(), remedy)
}

// declared lists the names, as many as a person reads.
func (r *registry) declared() string {
	const shown = 10
	names := slices.Sorted(slices.Values(r.names))
	switch {
	case len(names) == 0:
		return "none is declared"
	case len(names) > shown:
		return "declared are " + strings.Join(names[:shown], ", ") + " and " + strconv.Itoa(len(names)-shown) + " more"
	}
	return "declared are " + strings.Join(names, ", ")
}

// unused returns a warning for each name that nothing refers to.
func (r *registry) unused(consequence string) []string {
	var warnings []string
	for _, name := range r.names {
		if !r.used[name] {
			warnings = append(warnings, r.at[name].String()+": "+r.kind+" "+quote(name)+" "+consequence)
		}
	}
	return warnings
}

// names holds what all files together declare.
type names struct {
	apps, tenants, certificates, subscriptions, sinks *registry
	// filters are those of the sinks.
	filters []*Filter
	// clouds finds an app's cloud by its name, and appOf a tenant's app.
	clouds, appOf map[string]string
	rules         *graph.Rules
	// files are the paths of file sinks, with where they stand.
	files map[string]place
	// odd are the warnings found on the way.
	odd []string
}

func newNames(rules *graph.Rules) *names {
	return &names{
		files:         map[string]place{},
		clouds:        map[string]string{},
		appOf:         map[string]string{},
		rules:         rules,
		apps:          newRegistry("app"),
		tenants:       newRegistry("tenant"),
		certificates:  newRegistry("certificate"),
		subscriptions: newRegistry("subscription"),
		sinks:         newRegistry("sink"),
	}
}

// declare takes the names of one file.
func (n *names) declare(a place, f *fragment) {
	for key, r := range map[string]*registry{
		"apps": n.apps, "tenants": n.tenants, "subscriptions": n.subscriptions, "sinks": n.sinks,
	} {
		r.incomplete = r.incomplete || a.key(key).spoiled()
	}
	for i := range f.Apps {
		n.apps.declare(a.key("apps").index(i).key("name"), f.Apps[i].Name)
		n.clouds[f.Apps[i].Name] = f.Apps[i].Cloud
	}
	for i := range f.Tenants {
		n.tenants.declare(a.key("tenants").index(i).key("name"), f.Tenants[i].Name)
		n.appOf[f.Tenants[i].Name] = f.Tenants[i].App
	}
	for i := range f.Subscriptions {
		n.subscriptions.declare(a.key("subscriptions").index(i).key("name"), f.Subscriptions[i].Name)
	}
	for i := range f.Sinks {
		sink := &f.Sinks[i]
		n.sinks.declare(a.key("sinks").index(i).key("name"), sink.Name)
		if sink.Filter != nil {
			n.filters = append(n.filters, sink.Filter)
			n.sinks.used[sink.Name] = true
		}
	}
}

// allowMissing lets references to unknown names pass when a file that may
// declare them is missing.
func (n *names) allowMissing(missing bool) {
	for _, r := range []*registry{n.apps, n.tenants, n.subscriptions, n.sinks} {
		r.incomplete = r.incomplete || missing
	}
}

// cloudOf returns the cloud of the tenant's app, or nothing where a name on the
// way to it is not declared.
func (n *names) cloudOf(tenant string) string {
	return n.clouds[n.appOf[tenant]]
}

// warn records what is allowed but probably not meant.
func (n *names) warn(a place, problem, remedy string) {
	if !a.spoiled() {
		n.odd = append(n.odd, Fault{a.doc.file, a.position().line, a.position().column, a.path, problem, remedy}.String())
	}
}

// filtered tells whether the filter of a sink takes the tenant's events.
func (n *names) filtered(tenant string) bool {
	return slices.ContainsFunc(n.filters, func(f *Filter) bool {
		return len(f.Tenants) == 0 || slices.Contains(f.Tenants, tenant)
	})
}

// check applies the rules of what any file may hold.
func (f *fragment) check(a place, n *names) {
	for i := range f.Apps {
		f.Apps[i].check(a.key("apps").index(i))
	}
	for i := range f.Tenants {
		f.Tenants[i].check(a.key("tenants").index(i), n)
	}
	for i := range f.Subscriptions {
		f.Subscriptions[i].check(a.key("subscriptions").index(i), n)
	}
	for i := range f.Sinks {
		f.Sinks[i].check(a.key("sinks").index(i), n)
	}
}
