package delivery

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of deliveries.
const (
	outcomeDelivered = "delivered"
	outcomeRetried   = "retried"
	outcomeDead      = "dead"
)

// newMetrics registers the counter, or takes the one that is there.
func newMetrics(registerer prometheus.Registerer, sinks []Destination) (*prometheus.CounterVec, error) {
	deliveries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "graphsubd_deliveries_total",
		Help: "Tries to deliver an event to a sink, by how they ended.",
	}, []string{"sink", "outcome"})
	if err := registerer.Register(deliveries); err != nil {
		var already prometheus.AlreadyRegisteredError
		if !errors.As(err, &already) {
			return nil, err
		}
		existing, ok := already.ExistingCollector.(*prometheus.CounterVec)
		if !ok {
			return nil, err
		}
		deliveries = existing
	}
	for _, sink := range sinks {
		for _, outcome := range []string{outcomeDelivered, outcomeRetried, outcomeDead} {
			deliveries.WithLabelValues(sink.Name, outcome)
		}
	}
	return deliveries, nil
}
