package graph

import "time"

// LearnedLimit is the longest life of one type of resource in one tenant, as
// Graph itself named it when it refused a longer one.
type LearnedLimit struct {
	Tenant    string // name in the configuration
	Type      string // of the rule, such as "message"
	Lifetime  time.Duration
	LearnedAt time.Time
}
