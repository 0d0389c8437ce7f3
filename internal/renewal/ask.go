package renewal

import (
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Terms is what is known of how long a resource's subscription may live.
type Terms struct {
	Rule graph.Rule
	// Learned is the limit that Graph itself named, 0 when it never did. It
	// overrides the rule.
	Learned time.Duration
}

// Ask gives the expiry to ask for: what the wish wants, but never more than
// the maximum less the margin. All durations are in Graph's time; scale
// shortens the result for a simulator.
func Ask(now time.Time, wish *graph.Wish, t Terms, p Policy, scale float64) time.Time {
	longest := t.Rule.MaxLifetime
	if t.Learned > 0 {
		longest = t.Learned
	}
	// A tenth is kept of a maximum that is shorter than the margin itself.
	longest -= min(p.Margin, longest/10*9)
	lifetime := longest
	if wish != nil && wish.Lifetime > 0 {
		lifetime = min(wish.Lifetime, longest)
	}
	if scale > 1 {
		lifetime = time.Duration(float64(lifetime) / scale)
	}
	return now.Add(lifetime).UTC()
}

// RenewAt draws the instant of the next renewal within a life that was granted
// now and ends at expiresAt. draw is uniform in [0,1). It is called once for
// each granted life and stored, so that looking again never moves it.
func RenewAt(now, expiresAt time.Time, p Policy, draw float64) time.Time {
	share := p.RenewEarliest + draw*(p.RenewLatest-p.RenewEarliest)
	life := expiresAt.Sub(now)
	// The spacing gives way where it would let a very short life lapse.
	floor := min(p.MinSpacing, time.Duration(float64(life)*p.RenewLatest))
	return now.Add(max(time.Duration(float64(life)*share), floor))
}

// backoff gives the wait after the given number of failures in a row: it
// doubles from base to limit, and is drawn between its half and all of it.
func backoff(base, limit time.Duration, attempt int, draw float64) time.Duration {
	wait := base
	for range attempt - 1 {
		if wait >= limit {
			break
		}
		wait *= 2
	}
	wait = min(wait, limit)
	return wait/2 + time.Duration(float64(wait/2)*draw)
}
