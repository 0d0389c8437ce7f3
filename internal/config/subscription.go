package config

import (
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// LifetimeMax asks for the longest life that Graph grants.
const LifetimeMax Lifetime = 0

// Lifetime is how long a subscription is asked to live; LifetimeMax, written
// max, is as long as Graph grants.
type Lifetime time.Duration

// Subscription is one desired subscription.
type Subscription struct {
	// A DNS-1123 label of at most 63 characters, unique among the subscriptions.
	Name string `yaml:"name" jsonschema:"required,maxLength=63"`
	// Name of the tenant.
	Tenant string `yaml:"tenant" jsonschema:"required"`
	// What is watched, as Graph writes it, without https://graph.microsoft.com/v1.0/ before it.
	Resource string `yaml:"resource" jsonschema:"required"`
	// One or more of created, updated and deleted, each once.
	ChangeTypes []string `yaml:"changeTypes" jsonschema:"required,minItems=1,uniqueItems=true,enum=created,enum=updated,enum=deleted"`
	// How long it is asked to live: max, or a duration above zero. Default max.
	Lifetime Lifetime `yaml:"lifetime" jsonschema:"default=max"`
	// Ask for ids that do not change when an item is moved. Default false.
	ImmutableIDs bool `yaml:"immutableIDs" jsonschema:"default=false"`
	// Have the changed item sent, encrypted, with each notification. Default off.
	ResourceData *ResourceData `yaml:"resourceData"`
	// Alert when nothing came for so long; 0s is off. Default 0s.
	SilentAfter time.Duration `yaml:"silentAfter" jsonschema:"default=0s"`
	// Raise it to replace the URL token and clientState. Zero or more. Default 0.
	Rotation int `yaml:"rotation" jsonschema:"minimum=0,default=0"`
	// Neither create, renew nor recreate it while this is true. Default false.
	Paused bool `yaml:"paused" jsonschema:"default=false"`
	// Names of the sinks its events go to. May be empty where the filter of a sink takes the tenant.
	Sinks []string `yaml:"sinks" jsonschema:"uniqueItems=true"`
}

// ResourceData asks for the changed item with each notification.
type ResourceData struct {
	// Name of the certificate to encrypt for.
	Certificate string `yaml:"certificate" jsonschema:"required"`
}

// UnmarshalText reads max or a duration in Go's syntax above zero.
func (l *Lifetime) UnmarshalText(text []byte) error {
	if string(text) == "max" {
		*l = LifetimeMax
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return errNotALifetime
	}
	*l = Lifetime(d)
	return nil
}

// String returns max or the duration.
func (l Lifetime) String() string {
	if l == LifetimeMax {
		return "max"
	}
	return time.Duration(l).String()
}

func (s *Subscription) check(a place, n *names) {
	n.tenants.refer(a.key("tenant"), s.Tenant)
	checkText(a.key("resource"), s.Resource)
	checkSet(a.key("changeTypes"), s.ChangeTypes, "created", "updated", "deleted")
	s.checkRules(a, n)
	if s.ResourceData != nil {
		n.certificates.refer(a.key("resourceData").key("certificate"), s.ResourceData.Certificate)
	}
	if s.SilentAfter < 0 {
		a.key("silentAfter").fault("is below zero", "write 0s to turn it off")
	}
	if s.Rotation < 0 {
		a.key("rotation").fault("is below zero", "write 0 or more")
	}
	s.checkSinks(a, n)
}

func (s *Subscription) checkSinks(a place, n *names) {
	at, seen := a.key("sinks"), map[string]bool{}
	for i, name := range s.Sinks {
		if seen[name] {
			at.index(i).fault("names "+quote(name)+" twice", "name each sink once")
			continue
		}
		seen[name] = true
		n.sinks.refer(at.index(i), name)
	}
	if len(s.Sinks) == 0 && !n.filtered(s.Tenant) {
		at.fault("names no sink, and no sink's filter takes its tenant",
			"name a sink, or give a sink a filter with this tenant")
	}
}

// checkRules applies what Graph documents about the resource.
func (s *Subscription) checkRules(a place, n *names) {
	if s.Resource == "" {
		return
	}
	wish := graph.WishInput{
		Resource: s.Resource, Lifetime: time.Duration(s.Lifetime), Rich: s.ResourceData != nil,
		ImmutableIDs: s.ImmutableIDs, Cloud: n.cloudOf(s.Tenant),
	}
	for _, word := range s.ChangeTypes {
		wish.ChangeTypes = append(wish.ChangeTypes, graph.ChangeType(word))
	}
	for _, f := range n.rules.Check(wish) {
		at, problem := a.key(f.Field), f.Text+" (rule "+f.Rule+" of "+n.rules.Version+")"
		if f.Severity == graph.SeverityError {
			at.fault(problem, f.Remedy)
		} else {
			n.warn(at, problem, f.Remedy)
		}
	}
}
