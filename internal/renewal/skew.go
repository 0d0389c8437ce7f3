package renewal

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// skewLimit is the least difference between Graph's clock and ours that is
// allowed for. Below it is what the seconds of a Date header cannot tell, and
// what the margin of a request covers.
const skewLimit = time.Minute

// skewBelieved is the most that is allowed for. A clock that is further off
// cannot sign in to anything; such a Date is some proxy's.
const skewBelieved = 24 * time.Hour

// skewed speaks Graph's time to Graph and ours to us: every instant that goes
// out is moved forward by the skew and every one that comes in is moved back.
type skewed struct {
	client
	skew func() time.Duration
}

func (s skewed) now() time.Duration {
	if skew := s.skew(); skew.Abs() >= skewLimit && skew.Abs() <= skewBelieved {
		return skew
	}
	return 0
}

// Create asks by Graph's clock and answers by ours.
func (s skewed) Create(ctx context.Context, sub graph.Subscription) (graph.Subscription, error) {
	sub.ExpiresAt = sub.ExpiresAt.Add(s.now())
	sub, err := s.client.Create(ctx, sub)
	return s.ours(sub), err
}

// Renew asks by Graph's clock and answers by ours.
func (s skewed) Renew(ctx context.Context, id string, renewal graph.Renewal) (graph.Subscription, error) {
	renewal.ExpiresAt = renewal.ExpiresAt.Add(s.now())
	sub, err := s.client.Renew(ctx, id, renewal)
	return s.ours(sub), err
}

// Get answers by our clock.
func (s skewed) Get(ctx context.Context, id string) (graph.Subscription, error) {
	sub, err := s.client.Get(ctx, id)
	return s.ours(sub), err
}

// List answers by our clock.
func (s skewed) List(ctx context.Context) ([]graph.Subscription, error) {
	subs, err := s.client.List(ctx)
	for i := range subs {
		subs[i] = s.ours(subs[i])
	}
	return subs, err
}

func (s skewed) ours(sub graph.Subscription) graph.Subscription {
	if !sub.ExpiresAt.IsZero() {
		sub.ExpiresAt = sub.ExpiresAt.Add(-s.now())
	}
	return sub
}
