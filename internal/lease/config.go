package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// MaxDuration is the longest that another process waits for a holder, whatever
// duration the holder has written into the Lease.
const MaxDuration = 10 * time.Minute

// KubernetesConfig is what a Kubernetes elector needs. Every field is required
// unless it says otherwise.
type KubernetesConfig struct {
	// Namespace and Name of the Lease, which exists already.
	Namespace, Name string
	// Duration is how long others wait for a leader that is not heard of, in
	// whole seconds and at most MaxDuration; 60 s when 0. It has to leave room
	// for the slowest write to Graph.
	Duration time.Duration
	// RenewDeadline is how long a leader goes on without having renewed; 40 s
	// when 0. Duration > RenewDeadline > 1.2 × RetryPeriod. A deadline near
	// the duration is brought forward, to leave the body time to end.
	RenewDeadline time.Duration
	// RetryPeriod is the wait between two tries; 1.5 s when 0. A contender
	// waits up to 2.2 times as long, so that not all try at once.
	RetryPeriod time.Duration
	// CallTimeout bounds each call of the API; an eighth of RenewDeadline when
	// 0, so that a call that hangs leaves time for others.
	CallTimeout time.Duration
	// Election tells several elections of one process apart, in metrics.
	Election string
	// Identity names this process and no other; see NewIdentity.
	Identity string
	// Client reaches the API server. It may get and update the one Lease and
	// needs nothing more; see NewClient.
	Client coordination.LeasesGetter
	// LostCause is what the cause of the body's context wraps when leadership
	// was lost and not given up.
	LostCause  error
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c KubernetesConfig) withDefaults() KubernetesConfig {
	if c.Duration == 0 {
		c.Duration = time.Minute
	}
	if c.RenewDeadline == 0 {
		c.RenewDeadline = 40 * time.Second
	}
	if c.RetryPeriod == 0 {
		c.RetryPeriod = 1500 * time.Millisecond
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = c.RenewDeadline / 8
	}
	return c
}

func (c KubernetesConfig) validate() error {
	var faults []error
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, errors.New(what))
		}
	}
	need(c.Namespace != "" && c.Name != "" && c.Identity != "", "namespace, name and identity are required")
	need(c.Client != nil && c.LostCause != nil, "client and cause of a loss are required")
	need(c.Logger != nil && c.Registerer != nil, "logger and registerer are required")
	need(c.Duration >= time.Second && c.Duration%time.Second == 0 && c.Duration <= MaxDuration,
		fmt.Sprintf("duration is %v and has to be whole seconds, from 1s to %v", c.Duration, MaxDuration))
	need(c.RenewDeadline > 0 && c.RenewDeadline < c.Duration, "renew deadline has to be positive and below the duration")
	need(c.RetryPeriod > 0 && c.RetryPeriod*6/5 < c.RenewDeadline, "retry period has to be positive and, by a factor of 1.2, below the renew deadline")
	need(c.CallTimeout > 0, "call time-out has to be positive")
	return errors.Join(faults...)
}

// margin is how long before its end a lease counts as over: 5 s, less for a
// lease that is shorter than a minute.
func (c KubernetesConfig) margin() time.Duration { return min(5*time.Second, c.Duration/12) }

// giveUp is how long after the last renewal leadership is lost. What is left
// then is for the body to end in.
func (c KubernetesConfig) giveUp() time.Duration {
	return min(c.RenewDeadline, c.Duration-2*c.margin())
}

// overstay is how long after the last renewal a body may still be running.
func (c KubernetesConfig) overstay() time.Duration { return c.Duration - c.margin() }
