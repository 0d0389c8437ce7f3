package renewal

import (
	"context"
	"slices"
	"time"
)

// forecastEvery is how often it is worked out whether the budgets suffice.
const forecastEvery = 10 * time.Minute

// need is one living subscription as a budget sees it: a renewal before it
// expires, and one every so often from then on.
type need struct {
	expires time.Time
	every   time.Duration
}

// forecast gives the share of a budget that renewals will need where they need
// most of it, 1 when they need all: of what is left until some expiry, by all
// that expire until then, and in the long run. Above 1 something will lapse,
// whatever the order; below it, soonest first renews everything in time. Rate
// is in writes per second. The needs are put in order. It is pure.
func forecast(now time.Time, needs []need, rate float64) (ratio float64) {
	slices.SortFunc(needs, func(a, b need) int { return a.expires.Compare(b.expires) })
	steady := 0.0
	for i, n := range needs {
		if left := n.expires.Sub(now).Seconds(); left > 0 {
			ratio = max(ratio, float64(i+1)/(rate*left))
		}
		if n.every > 0 {
			steady += 1 / n.every.Seconds()
		}
	}
	return max(ratio, steady/rate)
}

// foresee says early when a budget cannot renew everything in time.
func (t *term) foresee(ctx context.Context, now time.Time) {
	t.forecastAt = now.Add(forecastEvery)
	byTenant, byApp := map[*tenant][]need{}, map[string][]need{}
	for e := range t.all {
		if e.record.ID == "" || e.tenant == nil {
			continue
		}
		life := e.record.ExpiresAt.Sub(e.record.GrantedAt)
		n := need{e.record.ExpiresAt, max(time.Duration(float64(life)*e.tenant.policy.RenewEarliest), e.tenant.policy.MinSpacing)}
		byTenant[e.tenant], byApp[e.tenant.App] = append(byTenant[e.tenant], n), append(byApp[e.tenant.App], n)
	}
	for app, budget := range t.apps {
		worst, where := forecast(now, byApp[app], float64(budget.limiter.Limit())), ""
		for tenant, needs := range byTenant {
			if tenant.App != app {
				continue
			}
			if ratio := forecast(now, needs, float64(tenant.writes.limiter.Limit())); ratio > worst {
				worst, where = ratio, tenant.Name
			}
		}
		t.m.metrics.forecast.WithLabelValues(app).Set(worst)
		if short := worst > 1; short != t.short[app] {
			t.short[app] = short
			t.tellShort(ctx, app, where, worst)
		}
	}
}

func (t *term) tellShort(ctx context.Context, app, tenant string, ratio float64) {
	log := t.log.With("app", app, "ratio", ratio)
	if tenant != "" {
		log = log.With("tenant", tenant)
	}
	if ratio <= 1 {
		log.InfoContext(ctx, "the write budget suffices again for all renewals")
		return
	}
	log.WarnContext(ctx, "the write budget cannot renew every subscription before it expires, the soonest come first: "+
		"raise quotaShare, ask for longer lifetimes, have fewer subscriptions, or spread them over more registrations")
}
