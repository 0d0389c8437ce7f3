package graph

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Severity says what becomes of a wish that has a finding.
type Severity string

// The severities. What Graph would refuse is an error; what is odd, unknown or
// about to be changed is a warning.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// The names of the rules that a finding can be about. A caution of the table
// may use one of these, or a name of its own.
const (
	RuleResourcePrefix  = "resource-prefix"
	RuleResourceText    = "resource-text"
	RuleUnknownResource = "unknown-resource"
	RuleMe              = "me"
	RuleUserName        = "user-name"
	RuleDelegatedOnly   = "delegated-only"
	RuleCloud           = "cloud"
	RuleChangeTypes     = "change-types"
	RuleLifetime        = "lifetime"
	RuleResourceData    = "resource-data"
	RuleSelect          = "select"
	RuleQueryOptions    = "query-options"
	RuleQueryText       = "query-text"
	RuleImmutableIDs    = "immutable-ids"
)

// minLifetime is what Graph raises a shorter lifetime to.
const minLifetime = 45 * time.Minute

// WishInput is what Check judges of a desired subscription.
type WishInput struct {
	Resource    string
	ChangeTypes []ChangeType
	// Lifetime is how long to ask for; 0 means as long as Graph allows.
	Lifetime time.Duration
	// Rich asks for resource data.
	Rich         bool
	ImmutableIDs bool
	// Cloud is global, usgov-l4, usgov-l5 or china, or empty when not known.
	Cloud string
}

// Finding is one thing that Graph would refuse or that is odd about a wish.
type Finding struct {
	Severity Severity
	// Rule is the name of the rule, such as change-types.
	Rule string
	// Field is resource, changeTypes, changeTypes[0] and so on, lifetime,
	// resourceData or immutableIDs.
	Field string
	// Text says what was found, as the end of a sentence about the field.
	Text string
	// Remedy says what to do.
	Remedy string
	// Source is the page that says so, or empty where it is our own rule.
	Source string
}

// Check explains what is wrong with a wish before Graph does. It is pure. It
// does not judge words that are no change types, nor names and numbers that
// Graph does not see. Findings come in the order of the fields.
func (t *Rules) Check(w WishInput) []Finding {
	c := check{table: t, wish: w, path: parsePath(w.Resource)}
	if !c.text() {
		return c.findings
	}
	c.rule, c.known = t.find(c.path.segments)
	c.resource()
	c.query()
	c.changeTypes()
	c.lifetime()
	c.resourceData()
	return c.findings
}

// check is the work of one Check.
type check struct {
	table    *Rules
	wish     WishInput
	path     resourcePath
	rule     Rule
	known    bool
	findings []Finding
}

func (c *check) fail(rule, field, text, remedy, source string) {
	c.findings = append(c.findings, Finding{SeverityError, rule, field, text, remedy, source})
}

func (c *check) warn(rule, field, text, remedy, source string) {
	c.findings = append(c.findings, Finding{SeverityWarning, rule, field, text, remedy, source})
}

// text judges the resource before it is taken apart, and says whether it can
// be. The text is passed on as it is, so nothing is trimmed here.
func (c *check) text() bool {
	resource := c.wish.Resource
	bare := strings.TrimLeft(strings.ToLower(resource), "/")
	path, _, _ := strings.Cut(bare, "?")
	path, _, _ = strings.Cut(path, "(") // A key may hold an address.
	switch {
	case resource == "":
		c.fail(RuleResourceText, "resource", "is missing", "write a path such as users/ID/messages", "")
	case strings.Contains(path, "://"), strings.HasPrefix(path, "graph.microsoft."), strings.HasPrefix(path, "v1.0/"), strings.HasPrefix(path, "beta/"):
		c.fail(RuleResourcePrefix, "resource", "holds the address or the version of Graph",
			"write the path alone, such as users/ID/messages", c.table.sources["lifetime"])
	case strings.TrimSpace(resource) != resource, strings.ContainsFunc(resource, isControl):
		c.fail(RuleResourceText, "resource", "has a space at an end or a control character in it", "remove it", "")
	default:
		return true
	}
	return false
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// resource judges the path.
func (c *check) resource() {
	if !c.known {
		c.warn(RuleUnknownResource, "resource", "is of no known kind, so it is asked to live for an hour at most",
			c.unknownRemedy(), c.table.sources["paths"])
	}
	if rest, ok := afterMe(c.wish.Resource); ok {
		c.warn(RuleMe, "resource", "begins with me, but an application has no signed-in user for it to stand for",
			"write users/ID"+rest, "https://github.com/microsoftgraph/java-spring-webhooks-sample/issues/14")
	}
	if c.path.first("users") && len(c.path.segments) > 1 && apostrophe(c.path.segments[1]) {
		c.warn(RuleUserName, "resource", "names a user with an apostrophe, which can break the path in Graph",
			"write the user's id, a GUID", "https://github.com/microsoftgraph/microsoft-graph-docs/blob/main/concepts/webhooks.md")
	}
	if c.rule.DelegatedOnly {
		c.fail(RuleDelegatedOnly, "resource", "is a "+c.rule.Type+", which Graph offers to signed-in users only; graphsubd is an application",
			"remove the subscription; no application permission gives it", c.table.sources["permission"])
	}
	if len(c.rule.Clouds) > 0 && c.wish.Cloud != "" && !slices.Contains(c.rule.Clouds, c.wish.Cloud) {
		c.fail(RuleCloud, "resource", "is a "+c.rule.Type+", which is in the cloud "+strings.Join(c.rule.Clouds, ", ")+
			" only, and the tenant's app is in "+c.wish.Cloud, "remove the subscription", c.rule.Source)
	}
	for _, caution := range c.rule.Cautions {
		c.warn(caution.Rule, "resource", caution.Text, caution.Remedy, c.rule.Source)
	}
}

// unknownRemedy says what may have been meant.
func (c *check) unknownRemedy() string {
	// A path one step above may be a collection that is known: Graph watches
	// those, and rarely one item of them.
	if last := len(c.path.segments) - 1; last > 0 {
		if rule, known := c.table.find(c.path.segments[:last]); known {
			for _, path := range rule.Paths {
				if p := newPattern(path, 0); p.matches(c.path.segments[:last]) && p.segments[last-1] != "" {
					return "watch all of " + strings.Join(c.path.segments[:last], "/") + "; Graph documents no single part of it"
				}
			}
		}
	}
	return "compare it with the resources that Graph supports; graphsubd resources lists the known ones"
}

// afterMe gives the path that follows a leading me. The query may hold what
// is nobody's business, so it is left out.
func afterMe(resource string) (rest string, ok bool) {
	path, _, _ := strings.Cut(strings.TrimLeft(resource, "/"), "?")
	first, rest, more := strings.Cut(path, "/")
	if more {
		rest = "/" + rest
	}
	return rest, strings.EqualFold(first, "me")
}

// apostrophe tells whether one is in the segment, the quotes of a key aside.
func apostrophe(segment string) bool {
	if key, ok := strings.CutPrefix(segment, "'"); ok {
		segment = strings.TrimSuffix(key, "'")
	}
	return strings.Contains(segment, "'") || strings.Contains(segment, "%27")
}

func (c *check) changeTypes() {
	if len(c.rule.ChangeTypes) == 0 {
		return
	}
	for i, word := range c.wish.ChangeTypes {
		field := fmt.Sprintf("changeTypes[%d]", i)
		switch {
		case slices.Contains(c.rule.ChangeTypes, word), !slices.Contains(ChangeTypes(), word):
		case slices.Contains(c.rule.DisputedTypes, word):
			c.warn(RuleChangeTypes, field, fmt.Sprintf("is %s, which Graph documents for a %s on one page and not on another", word, c.rule.Type),
				"write "+words(c.rule.ChangeTypes)+"; a creation arrives as updated", c.rule.Source)
		default:
			c.fail(RuleChangeTypes, field, fmt.Sprintf("is %s, and Graph has only %s for a %s", word, words(c.rule.ChangeTypes), c.rule.Type),
				"leave it out", c.rule.Source)
		}
	}
}

// words lists change types in the order of the table.
func words(types []ChangeType) string {
	list := make([]string, len(types))
	for i, word := range types {
		list[i] = string(word)
	}
	return strings.Join(list, ", ")
}

func (c *check) lifetime() {
	longest := c.rule.Longest(c.wish.Rich)
	switch asked := c.wish.Lifetime; {
	case asked <= 0:
	case asked < minLifetime:
		c.warn(RuleLifetime, "lifetime", "is "+brief(asked)+", and Graph raises what is below 45m to 45m",
			"write 45m or more, or max", c.table.sources["lifetime"])
	case asked > longest:
		c.warn(RuleLifetime, "lifetime", fmt.Sprintf("is %s, above the longest of this resource, %s, which is asked for instead", brief(asked), brief(longest)),
			"write max, or "+brief(longest)+" or less", c.table.sources["lifetime"])
	}
}

// brief writes a duration without the units that are zero.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (c *check) resourceData() {
	source := c.table.sources["resourceData"]
	switch {
	case !c.wish.Rich || !c.known:
	case c.rule.Rich == Unsupported:
		c.fail(RuleResourceData, "resourceData", "is asked for, and Graph sends none for a "+c.rule.Type, "remove it", source)
	case c.rule.Rich == Undocumented:
		c.warn(RuleResourceData, "resourceData", "is not documented for this resource", "remove it if Graph refuses it", source)
	}
	if c.wish.ImmutableIDs && c.known && c.rule.Family != familyOutlook {
		c.warn(RuleImmutableIDs, "immutableIDs", "has no effect on a "+c.rule.Type+"; only Outlook has such ids", "remove it", c.table.sources["immutableIDs"])
	}
}
