package renewal

import (
	"time"

	"golang.org/x/time/rate"
)

// Graph's documented limits on subscription writes: for one app over all
// tenants, and for one app in one tenant, in each window of 20 s.
// https://learn.microsoft.com/en-us/graph/throttling-limits (2026-02-06)
const (
	writesPerApp    = 2000
	writesPerTenant = 500
	budgetWindow    = 20 * time.Second
	// burstShare keeps any 20-second window within the limit: a bucket that is
	// full at its start gives this share on top of what flows in.
	burstShare = 0.02
)

// budget is a token bucket for calls to Graph that a throttled answer pauses.
// It is used by the manager's loop alone.
type budget struct {
	limiter *rate.Limiter
	share   float64
	paused  time.Time
}

// newBudget gives a bucket for writes in each window, of which share may be
// used, with Graph's time scale times faster. It begins empty: the leader
// before may have used the window up.
func newBudget(now time.Time, writes int, share, scale float64) *budget {
	perWindow := float64(writes) * share
	burst := max(1, int(perWindow*burstShare))
	flow := rate.Limit(perWindow * (1 - burstShare) / budgetWindow.Seconds() * max(scale, 1))
	b := &budget{limiter: rate.NewLimiter(flow, burst), share: share}
	b.limiter.AllowN(now, burst-1)
	return b
}

// next is when the bucket gives its next token; now or earlier means at once.
func (b *budget) next(now time.Time) time.Time {
	at := now
	if missing := 1 - b.limiter.TokensAt(now); missing > 0 {
		at = now.Add(time.Duration(missing / float64(b.limiter.Limit()) * float64(time.Second)))
	}
	if at.Before(b.paused) {
		return b.paused
	}
	return at
}

func (b *budget) take(now time.Time) { b.limiter.AllowN(now, 1) }

// pause stops the bucket until then, unless it is paused for longer.
func (b *budget) pause(until time.Time) {
	if until.After(b.paused) {
		b.paused = until
	}
}

// left is the share of the burst that is there now, between 0 and 1.
func (b *budget) left(now time.Time) float64 {
	if now.Before(b.paused) {
		return 0
	}
	return min(1, max(0, b.limiter.TokensAt(now)/float64(b.limiter.Burst())))
}
