package graph

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

//go:embed rules.json
var rulesJSON []byte

// Rule is what Graph documents about one kind of resource.
type Rule struct {
	// Type is the kind of resource in Graph's words, such as "message".
	Type string
	// MaxLifetime is the longest life that Graph grants, counted from the call.
	MaxLifetime time.Duration
}

// Rules is the table of what Graph documents, with the date of the reading.
// The documented numbers change; what Graph itself answers overrides them.
type Rules struct {
	Version string
	rules   []rule
}

type rule struct {
	Rule
	pattern *regexp.Regexp
}

// unknownLifetime is asked for where no rule is known. An hour is within every
// documented maximum but is not raised by the minimum of 45 minutes.
const unknownLifetime = time.Hour

// LoadRules reads the embedded table. An error is a fault of the build.
func LoadRules() (*Rules, error) {
	var file struct {
		Version string `json:"version"`
		Rules   []struct {
			Type       string `json:"type"`
			Pattern    string `json:"pattern"`
			MaxMinutes int    `json:"maxMinutes"`
		} `json:"rules"`
	}
	if err := json.Unmarshal(rulesJSON, &file); err != nil {
		return nil, fmt.Errorf("read resource rules: %w", err)
	}
	table := &Rules{Version: file.Version}
	for _, r := range file.Rules {
		pattern, err := regexp.Compile(r.Pattern)
		if err != nil {
			return nil, fmt.Errorf("resource rule %s: %w", r.Type, err)
		}
		longest := time.Duration(r.MaxMinutes) * time.Minute
		table.rules = append(table.rules, rule{Rule{r.Type, longest}, pattern})
	}
	return table, nil
}

// For gives the rule of a resource path; known is false, with a lifetime that
// every resource allows, when the table has none. Case, a leading slash and
// the query do not matter.
func (t *Rules) For(resource string) (r Rule, known bool) {
	path, _, _ := strings.Cut(resource, "?")
	path = strings.ToLower(strings.Trim(path, "/"))
	for _, r := range t.rules {
		if r.pattern.MatchString(path) {
			return r.Rule, true
		}
	}
	return Rule{Type: "unknown", MaxLifetime: unknownLifetime}, false
}
