package graph

import (
	"slices"
	"strings"
)

// familyOutlook is the family of the table that has rules of its own.
const familyOutlook = "Outlook"

// escaped tells whether a percent-encoded octet is in the text.
func escaped(text string) bool {
	for _, after := range strings.Split(text, "%")[1:] {
		if len(after) > 1 && strings.Trim(after[:2], "0123456789abcdefABCDEF") == "" {
			return true
		}
	}
	return false
}

// query judges what stands after the question mark.
func (c *check) query() {
	if strings.Count(c.path.query, "'")%2 != 0 {
		c.warn(RuleQueryText, "resource", "has an odd number of quotes in its query", "close each quote; a quote inside a value is doubled", "")
	}
	if escaped(c.path.query) {
		c.warn(RuleQueryText, "resource", "has a percent-encoded query, which Graph reads as it stands",
			"write the characters themselves", "https://github.com/microsoftgraph/microsoftgraph-postman-collections/issues/41")
	}
	if c.rule.Family != familyOutlook {
		return
	}
	add := c.warn
	if c.wish.Rich {
		add = c.fail
	}
	selected := false
	for _, option := range c.path.options() {
		selected = selected || option.name == "$select"
		switch {
		case slices.Contains([]string{"$top", "$skip", "$orderby"}, option.name),
			option.name == "$expand" && !extendedProperties(option.value):
			add(RuleQueryOptions, "resource", "has "+option.name+", which Outlook does not support in a subscription",
				"remove it", c.rule.Source)
		case option.name == "$select" && c.wish.Rich && selectsBody(option.value):
			add(RuleSelect, "resource", "selects body or uniqueBody, which Outlook does not send as resource data",
				"leave it out and read it from Graph", c.rule.Source)
		}
	}
	if c.wish.Rich && c.rule.SelectNeeded && !selected {
		c.fail(RuleSelect, "resource", "has no $select, which a "+c.rule.Type+" with resource data needs",
			"name the properties, such as ?$select=id,subject", c.rule.Source)
	}
}

func extendedProperties(expand string) bool {
	name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(expand)), "(")
	return name == "singlevalueextendedproperties" || name == "multivalueextendedproperties"
}

func selectsBody(list string) bool {
	for name := range strings.SplitSeq(strings.ToLower(list), ",") {
		if name = strings.TrimSpace(name); name == "body" || name == "uniquebody" {
			return true
		}
	}
	return false
}

// options are the parts of the query, in the order of the text. An ampersand
// inside quotes is part of a value.
func (p resourcePath) options() []queryOption {
	var list []queryOption
	rest, inQuote, start := p.query, false, 0
	for i := 0; i <= len(rest); i++ {
		if i < len(rest) && rest[i] == '\'' {
			inQuote = !inQuote
		}
		if i == len(rest) || rest[i] == '&' && !inQuote {
			name, value, _ := strings.Cut(rest[start:i], "=")
			list = append(list, queryOption{strings.ToLower(strings.TrimSpace(name)), value})
			start = i + 1
		}
	}
	return list
}

// queryOption is one part of a query; its name is in lower case.
type queryOption struct{ name, value string }
