package renewal

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Manager drives the renewal for one term of leadership at a time.
type Manager struct {
	cfg     Config
	metrics *metrics

	mu      sync.Mutex
	desired Desired // guarded by mu
	changed chan struct{}
}

// Desired is what the configuration asks for: the complete set of its wishes,
// and the tenants that they name.
type Desired struct {
	Tenants []Tenant
	Wishes  []graph.Wish
}

func (d Desired) validate() error {
	var faults []error
	for _, t := range d.Tenants {
		if t.Client == nil || t.QuotaShare <= 0 || t.QuotaShare > 1 {
			faults = append(faults, fmt.Errorf("tenant %s has no client or no share of the quota", t.Name))
		}
	}
	return errors.Join(faults...)
}

// New checks the configuration. It does no I/O and starts nothing.
func New(cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("renewal: %w", err)
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("renewal: %w", err)
	}
	return &Manager{cfg: cfg, metrics: m, changed: make(chan struct{}, 1)}, nil
}

// SetDesired replaces what the configuration asks for. A subscription that is
// missing from it is deleted at Graph by the leader; one whose tenant is
// missing is left alone, since nobody has a client for it. It is safe for
// concurrent use and may be called before and during Run. An error changes
// nothing.
func (m *Manager) SetDesired(d Desired) error {
	if err := d.validate(); err != nil {
		return fmt.Errorf("renewal: %w", err)
	}
	m.mu.Lock()
	m.desired = d
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default: // a change is announced already, and it will read the newest set
	}
	return nil
}

func (m *Manager) wanted() Desired {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.desired
}

// Run leads for one term, which the store issued, until ctx ends. A call that
// is under way then may finish within the grace time, unless the cause of the
// end is graph.ErrLeaseLost. It returns nil when ctx ended it, or an error
// that wraps graph.ErrTermLost when another process leads. All its goroutines
// have ended when it returns.
func (m *Manager) Run(ctx context.Context, term int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := newTerm(m, term)
	defer m.metrics.reset()
	defer t.jobs.Wait()
	if err := t.run(ctx); err != nil {
		// Nothing of this term may be written any more.
		cancel(err)
		return err
	}
	return nil
}
