package renewal

import (
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Settle is settle, for tests.
func Settle(now time.Time, s Situation, a Action, sub graph.Subscription, err error, p Policy, draw float64) graph.Change {
	return settle(now, s, a, answer{sub: sub, err: err}, p, draw)
}

// React is react, for tests.
func React(now time.Time, r graph.Record, item graph.LifecycleItem, p Policy) (graph.Change, bool) {
	return react(now, r, item, p)
}
