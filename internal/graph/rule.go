package graph

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

//go:generate go test . -run ^TestResourcesPage$ -count=1 -update

//go:embed rules.json
var rulesJSON []byte

// UnknownType is the type of a rule that stands in for a missing one.
const UnknownType = "unknown"

// unknownLifetime is asked for where no rule is known. An hour is within every
// documented maximum but is not raised by the minimum of 45 minutes.
const unknownLifetime = time.Hour

// Support says whether Graph documents that it can do something.
type Support string

// What the documentation says.
const (
	Undocumented Support = ""
	Supported    Support = "yes"
	Unsupported  Support = "no"
)

// Rule is what Graph documents about one kind of resource and the permissions
// of an application. Several rules share a type where one type is found under
// paths with other quotas or permissions; their lifetimes are the same. Its
// slices are shared and not to be changed. As JSON it is what the table holds,
// with lifetimes in minutes.
type Rule struct {
	// Family groups types for a reader, such as "Outlook".
	Family string `json:"family"`
	// Type is the kind of resource in Graph's words, such as "message".
	Type string `json:"type"`
	// Paths are the documented ones, with {id} for a part to fill in. A path
	// that begins with me counts as the same path under users/{id}.
	Paths []string `json:"paths"`
	// MaxLifetime is the longest life that Graph grants, counted from the call.
	MaxLifetime time.Duration `json:"-"`
	// RichLifetime is the same with resource data, 0 where that is no shorter.
	RichLifetime time.Duration `json:"-"`
	// LifecycleURL is set where a life above an hour needs a lifecycle URL.
	LifecycleURL bool `json:"lifecycleURL,omitempty"`
	// ChangeTypes are the ones that can be asked for; none: not documented.
	ChangeTypes []ChangeType `json:"changeTypes,omitempty"`
	// DisputedTypes are refused by one page and shown by another.
	DisputedTypes []ChangeType `json:"disputedTypes,omitempty"`
	// Rich says whether resource data can be sent along.
	Rich Support `json:"rich,omitempty"`
	// SelectNeeded is set where resource data needs a $select.
	SelectNeeded bool `json:"selectNeeded,omitempty"`
	// Delta says whether a delta query can find what was missed.
	Delta Support `json:"delta,omitempty"`
	// Quotas are the documented numbers of subscriptions, with their scope.
	Quotas []string `json:"quotas,omitempty"`
	// OnePerResource is set where a second subscription of one app to the same
	// resource is over a quota.
	OnePerResource bool `json:"onePerResource,omitempty"`
	// Permissions are application permissions, any one of which is enough; the
	// least one first; none: not documented.
	Permissions []string `json:"permissions,omitempty"`
	// DelegatedOnly is set where an application can have no permission.
	DelegatedOnly bool `json:"delegatedOnly,omitempty"`
	// Clouds are the only ones that have it; none: all of them.
	Clouds []string `json:"clouds,omitempty"`
	// Notes are for a person.
	Notes []string `json:"notes,omitempty"`
	// Cautions are what to warn of whenever the resource is asked for.
	Cautions []Caution `json:"cautions,omitempty"`
	// Source is the page that says most about this kind.
	Source string `json:"source"`
}

// Caution is a warning that a kind of resource always gets.
type Caution struct {
	Rule   string `json:"rule"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Longest is the longest life that Graph grants, with or without resource data.
func (r Rule) Longest(rich bool) time.Duration {
	if rich && r.RichLifetime > 0 {
		return r.RichLifetime
	}
	return r.MaxLifetime
}

// plainRule has the fields of a Rule and not its methods.
type plainRule Rule

// ruleJSON is the form in which a rule is written.
type ruleJSON struct {
	*plainRule
	MaxMinutes  int `json:"maxMinutes"`
	RichMinutes int `json:"richMinutes,omitempty"`
}

// MarshalJSON writes the lifetimes in minutes.
func (r Rule) MarshalJSON() ([]byte, error) {
	plain := plainRule(r)
	return json.Marshal(ruleJSON{&plain, int(r.MaxLifetime.Minutes()), int(r.RichLifetime.Minutes())})
}

// UnmarshalJSON is the inverse of MarshalJSON. It refuses unknown keys.
func (r *Rule) UnmarshalJSON(data []byte) error {
	form := ruleJSON{plainRule: (*plainRule)(r)}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&form); err != nil {
		return err
	}
	r.MaxLifetime = time.Duration(form.MaxMinutes) * time.Minute
	r.RichLifetime = time.Duration(form.RichMinutes) * time.Minute
	return nil
}

// Rules is the table of what Graph documents. It is never changed and may be
// used by many goroutines. The documented numbers change; what Graph itself
// answers overrides them.
type Rules struct {
	// Version is the date of the table, such as 2026-12-01.
	Version string
	sources map[string]string
	rules   []Rule
	// patterns are all paths, the more literal of two before the other.
	patterns []pattern
}

// LoadRules reads the embedded table. An error is a fault of the build.
func LoadRules() (*Rules, error) {
	var file struct {
		Version string            `json:"version"`
		Sources map[string]string `json:"sources"`
		Rules   []Rule            `json:"rules"`
	}
	if err := json.Unmarshal(rulesJSON, &file); err != nil {
		return nil, fmt.Errorf("read resource rules: %w", err)
	}
	t := &Rules{Version: file.Version, sources: file.Sources, rules: file.Rules}
	for i := range t.rules {
		for _, path := range t.rules[i].Paths {
			t.patterns = append(t.patterns, newPattern(path, i))
		}
	}
	slices.SortFunc(t.patterns, pattern.compare)
	for i := range len(t.patterns) - 1 {
		if p, q := t.patterns[i], t.patterns[i+1]; p.compare(q) == 0 {
			return nil, fmt.Errorf("resource rules of %s and %s match the same paths", t.rules[p.rule].Type, t.rules[q.rule].Type)
		}
	}
	return t, nil
}

// All gives every rule in the order of the table.
func (t *Rules) All() []Rule { return slices.Clone(t.rules) }

// For gives the rule of a resource; known is false, with a lifetime that
// every resource allows, when the table has none. Case, a slash at an end and
// the query do not matter.
func (t *Rules) For(resource string) (r Rule, known bool) {
	return t.find(parsePath(resource).segments)
}

func (t *Rules) find(segments []string) (Rule, bool) {
	for _, p := range t.patterns {
		if p.matches(segments) {
			return t.rules[p.rule], true
		}
	}
	return Rule{Type: UnknownType, MaxLifetime: unknownLifetime, LifecycleURL: true}, false
}
