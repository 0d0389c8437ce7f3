package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The defaults of Config and Destination.
const (
	DefaultBatch       = 100
	DefaultLease       = time.Minute
	DefaultSendTimeout = 30 * time.Second
	DefaultPoll        = time.Second
	DefaultBase        = time.Second
	DefaultTop         = 5 * time.Minute
	DefaultMaxAge      = 72 * time.Hour
	DefaultGrace       = 2 * time.Second
)

// Destination is one sink and how long it is tried. Delivery closes the sink
// when its worker ends.
type Destination struct {
	Name string
	Sink Sink
	// MaxAge is how long after its arrival a delivery is still tried.
	MaxAge time.Duration
	// Batch is how many deliveries it is given at once, zero for Config's.
	Batch int
}

// Config is the configuration of the delivery. A zero field means its default.
type Config struct {
	Sinks []Destination
	// Batch is how many deliveries are claimed and sent at once.
	Batch int
	// Lease is how long a claim holds. Within it a batch is sent and settled.
	Lease time.Duration
	// SendTimeout bounds one call of a sink; it is shorter than Lease, so
	// that the outcome can still be settled.
	SendTimeout time.Duration
	// Poll is how long to wait at most before the queue is asked again, for
	// what another replica stored or left behind.
	Poll time.Duration
	// Base and Top are the first and the longest wait before a next try.
	Base, Top time.Duration
	// Grace is how long a batch under way may go on after the end of Run's
	// context: three quarters to be sent, the rest to be settled.
	Grace time.Duration
	// AppOf gives the application id that serves a tenant, "" for none.
	AppOf func(tenantID string) string
	// Rand draws the jitter; it has no default.
	Rand *rand.Rand
	// Logger gets states and their changes; nil means none.
	Logger *slog.Logger
	// Registerer takes the metrics; nil means that none are exposed. They are
	// shared with an earlier Delivery on the same registerer, so that a
	// change of the sinks does not reset them.
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.Batch = cmp.Or(c.Batch, DefaultBatch)
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.SendTimeout = cmp.Or(c.SendTimeout, min(DefaultSendTimeout, c.Lease/2))
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.Base = cmp.Or(c.Base, DefaultBase)
	c.Top = cmp.Or(c.Top, DefaultTop)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	if c.AppOf == nil {
		c.AppOf = func(string) string { return "" }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

func (c Config) validate() error {
	var faults []error
	if c.Batch < 0 {
		faults = append(faults, fmt.Errorf("a Batch of %d is not positive", c.Batch))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Lease", c.Lease},
		{"SendTimeout", c.SendTimeout},
		{"Poll", c.Poll},
		{"Base", c.Base},
		{"Top", c.Top},
		{"Grace", c.Grace},
	} {
		if d.value < 0 {
			faults = append(faults, fmt.Errorf("%s is %s, it must be positive", d.name, d.value))
		}
	}
	if c.SendTimeout >= c.Lease {
		faults = append(faults, fmt.Errorf("SendTimeout is %s, it must be below Lease, %s", c.SendTimeout, c.Lease))
	}
	if c.Rand == nil {
		faults = append(faults, errors.New("no Rand"))
	}
	seen := map[string]bool{}
	for _, d := range c.Sinks {
		if d.Name == "" || d.Sink == nil || d.MaxAge < 0 || seen[d.Name] {
			faults = append(faults, fmt.Errorf("sink %q needs a name of its own, a sink and a positive MaxAge", d.Name))
		}
		seen[d.Name] = true
	}
	return errors.Join(faults...)
}
