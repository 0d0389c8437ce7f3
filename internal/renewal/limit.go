package renewal

import (
	"errors"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// limitKey names what a limit that Graph taught holds for: one tenant that is
// odd shortens no other's lives.
type limitKey struct{ tenant, kind string }

// limitOf reads from an answer that a lifetime was refused which one Graph
// takes for that kind of resource, a lifetime of 0 when it was about something
// else. Where Graph names none it is a guess, which is not worth storing.
func (t *term) limitOf(now time.Time, r graph.Record, err error) (limit graph.LearnedLimit, named bool) {
	var fault *graph.Error
	if !errors.As(err, &fault) || graph.Classify(fault) != graph.ReasonExpiryLimited {
		return graph.LearnedLimit{}, false
	}
	rule, _ := t.m.cfg.Rules.For(r.Resource)
	limit = graph.LearnedLimit{Tenant: r.Tenant, Type: rule.Type, LearnedAt: now}
	if limit.Lifetime, named = fault.ExpiryLimit(); !named {
		limit.Lifetime = t.m.cfg.Policy.LimitFloor
	}
	return limit, named
}

// terms gives how long an entry's subscription may live: by the rule, or by
// what Graph taught within the life of a limit.
func (t *term) terms(now time.Time, e *entry) Terms {
	rule, _ := t.m.cfg.Rules.For(e.record.Resource)
	terms := Terms{Rule: rule}
	limit, known := t.limits[limitKey{e.record.Tenant, rule.Type}]
	if known && e.tenant != nil && now.Sub(limit.LearnedAt) < e.tenant.policy.LimitLife {
		terms.Learned = limit.Lifetime
	}
	return terms
}
