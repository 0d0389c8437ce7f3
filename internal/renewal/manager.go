package renewal

import (
	"context"
	"fmt"
	"sync"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Manager drives the renewal for one term of leadership at a time.
type Manager struct {
	cfg     Config
	metrics *metrics

	mu      sync.Mutex
	desired []graph.Wish // guarded by mu; the wishes of the configuration
	changed chan struct{}
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

// SetWishes replaces the complete set of wishes of the configuration. What is
// missing from it is deleted at Graph by the leader. It is safe for concurrent
// use and may be called before and during Run.
func (m *Manager) SetWishes(wishes []graph.Wish) {
	m.mu.Lock()
	m.desired = wishes
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default: // a change is announced already, and it will read the newest set
	}
}

func (m *Manager) wishes() []graph.Wish {
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
