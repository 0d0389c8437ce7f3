package httpapi

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

type metrics struct {
	received   *prometheus.CounterVec
	verdicts   *prometheus.CounterVec
	ack        prometheus.Histogram
	lifecycle  *prometheus.CounterVec
	last       prometheus.Gauge
	handshakes *prometheus.CounterVec
	panics     prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, slowRatio func() float64) (*metrics, error) {
	m := &metrics{
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "graphsubd_notifications_received_total",
			Help: "Items that arrived, by kind, also those that were refused and will be sent again.",
		}, []string{"kind"}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "graphsubd_notifications_total",
			Help: "Verdicts on items. An accepted one that proves later to be a duplicate or unwanted has both verdicts; a POST refused unread counts as one item.",
		}, []string{"verdict", "reason"}),
		ack: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "graphsubd_notification_ack_duration_seconds",
			Help: "Time from a notification's headers to its answer. Graph calls an endpoint slow above 3 seconds.",
			// 3 and 10 are the marks by which Graph judges an endpoint.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 3, 5, 10},
		}),
		lifecycle: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "graphsubd_lifecycle_events_total",
			Help: "Accepted lifecycle items, by event.",
		}, []string{"event"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "graphsubd_last_notification_timestamp_seconds",
			Help: "When an item was last stored.",
		}),
		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "graphsubd_handshakes_total",
			Help: "Handshakes to a URL of ours, by outcome.",
		}, []string{"outcome"}),
	}
	m.zero()
	var err error
	m.panics, err = newPanics(registerer)
	faults := []error{err, registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "graphsubd_endpoint_slow_ratio",
		Help: "Share of the answers of the last 10 minutes that Graph calls slow, 0 to 1.",
	}, slowRatio))}
	for _, c := range []prometheus.Collector{m.received, m.verdicts, m.ack, m.lifecycle, m.last, m.handshakes} {
		faults = append(faults, registerer.Register(c))
	}
	return m, errors.Join(faults...)
}

// newPanics gives the counter that all handlers of a process share.
func newPanics(registerer prometheus.Registerer) (prometheus.Counter, error) {
	panics := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "graphsubd_http_panics_total",
		Help: "Panics recovered while serving a request. Each one is a bug.",
	})
	err := registerer.Register(panics)
	if taken, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if shared, ok := taken.ExistingCollector.(prometheus.Counter); ok {
			return shared, nil
		}
	}
	return panics, err
}

// zero makes every child exist from the start, so that a first increase is
// seen as one.
func (m *metrics) zero() {
	for _, kind := range []notification.Kind{notification.KindChange, notification.KindLifecycle} {
		m.received.WithLabelValues(string(kind))
	}
	m.verdicts.WithLabelValues(VerdictAccepted, "")
	m.verdicts.WithLabelValues(VerdictDuplicate, string(notification.ReasonDuplicate))
	m.verdicts.WithLabelValues(VerdictDropped, string(notification.ReasonProbe))
	for _, reason := range notification.Reasons() {
		if reason != notification.ReasonDuplicate && reason != notification.ReasonProbe {
			m.verdicts.WithLabelValues(VerdictQuarantined, string(reason))
		}
	}
	for _, reason := range []notification.Reason{notification.ReasonMalformed, notification.ReasonUnknownSubscription} {
		m.verdicts.WithLabelValues(VerdictRefused, string(reason))
	}
	for _, reason := range []graph.Reason{graph.ReasonStoreUnavailable, graph.ReasonThrottled, graph.ReasonTransient, graph.ReasonForbidden} {
		m.verdicts.WithLabelValues(VerdictRefused, string(reason))
	}
	for _, event := range lifecycleEvents() {
		m.lifecycle.WithLabelValues(event)
	}
	for _, outcome := range []string{"answered", "refused"} {
		m.handshakes.WithLabelValues(outcome)
	}
}

// countReceived counts the items of an envelope.
func (m *metrics) countReceived(envelope *notification.Envelope) {
	lifecycle := 0
	for i := range envelope.Items {
		if envelope.Items[i].Lifecycle {
			lifecycle++
		}
	}
	m.received.WithLabelValues(string(notification.KindLifecycle)).Add(float64(lifecycle))
	m.received.WithLabelValues(string(notification.KindChange)).Add(float64(len(envelope.Items) - lifecycle + len(envelope.Malformed)))
}

// count adds verdicts on items; reason is "" where the verdict needs none.
func (m *metrics) count(verdict string, reason notification.Reason, n int) {
	m.verdicts.WithLabelValues(verdict, string(reason)).Add(float64(n))
}
