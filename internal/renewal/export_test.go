package renewal

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// MassLimit is massLimit, for tests.
func MassLimit(subscriptions int, p Policy) int { return massLimit(subscriptions, p) }

// Massive is massive, for tests.
func Massive(s Situation, a Action, replaces bool) bool { return massive(s, a, replaces) }

// Need is need, for tests.
type Need = need

// NeedOf makes one.
func NeedOf(expires time.Time, every time.Duration) Need { return need{expires, every} }

// Forecast is forecast, for tests.
func Forecast(now time.Time, needs []Need, rate float64) float64 { return forecast(now, needs, rate) }

// Hold gives all that a term keeps of records and their wishes, for weighing.
func Hold(wishes []graph.Wish, records []graph.Record) any {
	now := time.Now()
	t := newTerm(&Manager{cfg: Config{Policy: DefaultPolicy(), Rand: rand.New(rand.NewPCG(1, 2)), Logger: slog.New(slog.DiscardHandler)}, metrics: &metrics{
		subscriptions: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "x", Help: "x"}, []string{"state"}),
	}}, 1)
	t.setTenants(now, []Tenant{{Name: "contoso", App: "hooks", Scale: 1, QuotaShare: 1}})
	for _, r := range records {
		t.add(now, r)
	}
	for i := range wishes {
		t.wishes[wishes[i].Name] = &wishes[i]
	}
	return t
}
