package msgraph

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// reasonNone is the label of a call that succeeded.
const reasonNone = "none"

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics registers the metrics with every child at zero. A registerer
// that has them already, from the client of another app, shares them.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "graphsubd_graph_requests_total",
			Help: "Attempts of calls to Microsoft Graph, by operation and by reason of failure (none: it succeeded).",
		}, []string{"operation", "reason"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "graphsubd_graph_request_duration_seconds",
			Help:    "Duration of attempts of calls to Microsoft Graph, with the token when one had to be fetched.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40},
		}, []string{"operation"}),
	}
	if registerer != nil {
		var err error
		if m.requests, err = register(registerer, m.requests); err != nil {
			return nil, err
		}
		if m.duration, err = register(registerer, m.duration); err != nil {
			return nil, err
		}
	}
	for _, operation := range graph.Operations() {
		m.duration.WithLabelValues(string(operation))
		m.requests.WithLabelValues(string(operation), reasonNone)
		for _, reason := range graph.Reasons() {
			m.requests.WithLabelValues(string(operation), string(reason))
		}
	}
	return m, nil
}

func register[C prometheus.Collector](registerer prometheus.Registerer, collector C) (C, error) {
	err := registerer.Register(collector)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	return collector, err
}

func (m *metrics) observe(operation graph.Operation, err error, took time.Duration) {
	reason := reasonNone
	if err != nil {
		reason = string(graph.Classify(err))
	}
	m.requests.WithLabelValues(string(operation), reason).Inc()
	m.duration.WithLabelValues(string(operation)).Observe(took.Seconds())
}
