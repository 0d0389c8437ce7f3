package renewal

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Outcomes of a renewal, as the label of renewals_total has them.
const (
	outcomeRenewed = "renewed"
	outcomeFailed  = "failed"
)

// noReason is the label of what did not fail.
const noReason = "none"

type metrics struct {
	subscriptions  *prometheus.GaugeVec
	earliestExpiry prometheus.Gauge
	renewals       *prometheus.CounterVec
	recreated      *prometheus.CounterVec
	budget         *prometheus.GaugeVec
	held           prometheus.Gauge
	forecast       *prometheus.GaugeVec
	silent         prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		subscriptions: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "graphsubd_subscriptions", Help: "Subscriptions by state; only the leader counts them.",
		}, []string{"state"}),
		earliestExpiry: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "graphsubd_subscription_earliest_expiry_timestamp_seconds",
			Help: "When the subscription that expires first will expire; 0 when none lives.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "graphsubd_renewals_total", Help: "Renewals that Graph answered, or did not, by outcome and reason.",
		}, []string{"outcome", "reason"}),
		recreated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "graphsubd_recreated_total", Help: "Subscriptions made anew after one was lost, by cause.",
		}, []string{"cause"}),
		budget: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "graphsubd_budget_remaining_ratio", Help: "Share of the app's write budget that is free now.",
		}, []string{"app"}),
		forecast: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "graphsubd_budget_forecast_ratio",
			Help: "Share of the app's write budget that renewals will need at the worst time to come; above 1 something will lapse.",
		}, []string{"app"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "graphsubd_mass_changes_held",
			Help: "Deletions and recreations that wait for a person, because there are too many at once; only the leader counts them.",
		}),
		silent: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "graphsubd_silent_subscriptions",
			Help: "Subscriptions for which nothing came for longer than their silentAfter; only the leader counts them.",
		}),
	}
	for _, state := range graph.States() {
		m.subscriptions.WithLabelValues(string(state))
	}
	m.renewals.WithLabelValues(outcomeRenewed, noReason)
	for _, reason := range graph.Reasons() {
		m.renewals.WithLabelValues(outcomeFailed, string(reason))
	}
	for _, cause := range graph.GapCauses() {
		m.recreated.WithLabelValues(string(cause))
	}
	for _, collector := range []prometheus.Collector{m.subscriptions, m.earliestExpiry, m.renewals, m.recreated, m.budget, m.held, m.forecast, m.silent} {
		if err := registerer.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) countState(state graph.State, by float64) {
	if state != "" {
		m.subscriptions.WithLabelValues(string(state)).Add(by)
	}
}

func (m *metrics) countRenewal(err error) {
	if err == nil {
		m.renewals.WithLabelValues(outcomeRenewed, noReason).Inc()
		return
	}
	m.renewals.WithLabelValues(outcomeFailed, string(graph.Classify(err))).Inc()
}

func (m *metrics) setEarliestExpiry(at time.Time) {
	if at.IsZero() {
		m.earliestExpiry.Set(0)
		return
	}
	m.earliestExpiry.Set(float64(at.UnixMicro()) / 1e6)
}

// reset sets what only the leader knows back to nothing.
func (m *metrics) reset() {
	for _, state := range graph.States() {
		m.subscriptions.WithLabelValues(string(state)).Set(0)
	}
	m.earliestExpiry.Set(0)
	m.held.Set(0)
	m.forecast.Reset()
	m.silent.Set(0)
}
