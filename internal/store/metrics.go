package store

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// metrics are pushed where something happens, and pulled from the tally where
// they say how much there is.
type metrics struct {
	commit prometheus.Histogram
	gaps   *prometheus.CounterVec
	drops  *prometheus.CounterVec
	term   prometheus.Gauge

	mu     sync.Mutex
	oldest map[string]time.Time // creation of the oldest pending delivery by sink; guarded by mu
}

func newMetrics() *metrics {
	m := &metrics{
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "graphsubd_store_commit_duration_seconds",
			Help:    "Time that a write transaction took, from its begin to the end of its sync.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "graphsubd_gaps_total",
			Help: "Gaps opened: spans in which changes may have been lost.",
		}, []string{"cause"}),
		term: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "graphsubd_term",
			Help: "The newest term that the store has issued.",
		}),
	}
	m.drops = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "graphsubd_quarantine_dropped_total",
		Help: "Items that were not forwarded and not kept either, because the quarantine was full.",
	}, []string{"reason"})
	for _, reason := range notification.Reasons() {
		m.drops.WithLabelValues(string(reason))
	}
	for _, cause := range graph.GapCauses() {
		m.gaps.WithLabelValues(string(cause))
	}
	return m
}

// register shows them, with what the tally and size say at each scrape.
func (m *metrics) register(registerer prometheus.Registerer, t *tally, size func() int64) error {
	bytes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "graphsubd_store_bytes",
		Help: "Size of the database with its log.",
	}, func() float64 { return float64(size()) })
	for _, collector := range []prometheus.Collector{m.commit, m.gaps, m.drops, m.term, bytes, newTallyCollector(t, m)} {
		if err := registerer.Register(collector); err != nil {
			return fmt.Errorf("register the store's metrics: %w", err)
		}
	}
	return nil
}

// drop counts items that the quarantine had no room for.
func (m *metrics) drop(reason notification.Reason, n int) {
	m.drops.WithLabelValues(string(reason)).Add(float64(n))
}

func (m *metrics) setOldest(oldest map[string]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.oldest = oldest
}

// ages gives how old the oldest pending delivery of each sink is.
func (m *metrics) ages(now time.Time) map[string]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	ages := make(map[string]time.Duration, len(m.oldest))
	for sink, created := range m.oldest {
		ages[sink] = now.Sub(created)
	}
	return ages
}

// tallyCollector shows the tally, whose sinks are not known beforehand.
type tallyCollector struct {
	tally                           *tally
	metrics                         *metrics
	backlog, age, dead, quarantined *prometheus.Desc
}

func newTallyCollector(t *tally, m *metrics) *tallyCollector {
	describe := func(name, help, label string) *prometheus.Desc {
		return prometheus.NewDesc("graphsubd_"+name, help, []string{label}, nil)
	}
	return &tallyCollector{
		tally: t, metrics: m,
		backlog: describe("backlog_rows", "Rows that are not delivered yet; sink is empty for those not routed yet.", "sink"),
		age:     describe("delivery_oldest_age_seconds", "Age of the oldest delivery that is not done.", "sink"),
		dead:    describe("dead_letters", "Deliveries that were given up and are kept.", "sink"),
		quarantined: describe("quarantine_rows",
			"Items that were not forwarded and are kept.", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *tallyCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.backlog, c.age, c.dead, c.quarantined} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *tallyCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	gauge(c.backlog, float64(c.tally.unrouted(stateNew)+c.tally.unrouted(stateHeld)), "")
	ages := c.metrics.ages(time.Now())
	for sink, rows := range c.tally.pendingRows() {
		gauge(c.backlog, float64(rows), sink)
		gauge(c.age, ages[sink].Seconds(), sink)
	}
	dead := c.tally.deadRows()
	for sink := range c.tally.pendingRows() {
		dead[sink] += 0 // a sink without dead letters is shown too
	}
	for sink, rows := range dead {
		gauge(c.dead, float64(rows), sink)
	}
	rows := c.tally.quarantineRows()
	for _, reason := range notification.Reasons() {
		gauge(c.quarantined, float64(rows[reason]), string(reason))
	}
}
