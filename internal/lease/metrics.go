package lease

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Reasons for which a lease cannot be had, as the label of
// lease_errors_total and the log have them.
const (
	reasonGone         = "gone"
	reasonForbidden    = "forbidden"
	reasonUnauthorized = "unauthorized"
	reasonConflict     = "conflict"
	reasonInvalid      = "invalid"
	reasonThrottled    = "throttled"
	reasonTransient    = "transient"
)

type metrics struct {
	leads       prometheus.Gauge
	transitions prometheus.Counter
	errors      *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer, election string) (*metrics, error) {
	leader := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "graphsubd_leader", Help: "1 while this process leads.",
	}, []string{"election"})
	m := &metrics{
		leads: leader.WithLabelValues(election),
		transitions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "graphsubd_lease_transitions_total", Help: "How often this process gained or lost the lead.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "graphsubd_lease_errors_total", Help: "Tries to get or keep the lease that failed, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{
		reasonGone, reasonForbidden, reasonUnauthorized, reasonConflict, reasonInvalid, reasonThrottled, reasonTransient,
	} {
		m.errors.WithLabelValues(reason)
	}
	var errs []error
	for _, collector := range []prometheus.Collector{leader, m.transitions, m.errors} {
		errs = append(errs, registerer.Register(collector))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	return m, nil
}

// lead notes that this process leads, or that it does no longer.
func (m *metrics) lead(leads bool) {
	m.transitions.Inc()
	if leads {
		m.leads.Set(1)
		return
	}
	m.leads.Set(0)
}
