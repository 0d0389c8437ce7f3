package lease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// Kubernetes is leadership by a Lease object. Its permissions are get and
// update on that one object: it never creates it.
//
// client-go's elector contends for the Lease and keeps it. It does not wait
// for what the leader does, so that part is here: the body, its end, and the
// release after it.
type Kubernetes struct {
	cfg     KubernetesConfig
	metrics *metrics
	health  *health
	leads   atomic.Pointer[lock] // while the body runs
}

// NewKubernetes checks the configuration. It does no I/O.
func NewKubernetes(cfg KubernetesConfig) (*Kubernetes, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	m, err := newMetrics(cfg.Registerer, cfg.Election)
	if err != nil {
		return nil, err
	}
	cfg.Logger = cfg.Logger.With("lease", cfg.Namespace+"/"+cfg.Name)
	return &Kubernetes{cfg: cfg, metrics: m, health: newHealth(cfg.Logger, m)}, nil
}

// Left is how long the lease lasts at least, for a body to ask: until then no
// other process leads. It is 0 once the lease is lost. It is safe for
// concurrent use.
func (k *Kubernetes) Left() time.Duration {
	if l := k.leads.Load(); l != nil {
		return l.left(time.Now())
	}
	return 0
}

// Run contends for the Lease until ctx ends and runs body while it holds it.
// A body that ends early is logged, and the Lease is contended for anew after
// the retry period. When leadership is lost, the body's context ends with a
// cause that wraps LostCause: at the renew deadline, and at once when the
// Lease is missing, denied, or names another holder.
//
// It returns nil once ctx has ended, the body has returned and the Lease is
// released. It returns ErrOverstayed, and leaves the body behind, when that
// does not end before the lease does.
func (k *Kubernetes) Run(ctx context.Context, body Body) error {
	for ctx.Err() == nil {
		if err := k.contend(ctx, body); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(k.cfg.RetryPeriod):
		}
	}
	return nil
}

// contend waits for the Lease, leads once, and releases it.
func (k *Kubernetes) contend(ctx context.Context, body Body) error {
	l := newLock(&k.cfg, k.health)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, Name: k.cfg.Name,
		LeaseDuration: k.cfg.Duration, RenewDeadline: k.cfg.RenewDeadline, RetryPeriod: k.cfg.RetryPeriod,
		// The lock tells when leadership begins and ends, sooner than these do.
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	// The Lease is kept until the body has ended, longer than ctx lasts. What
	// the elector would log is told by the lock.
	keep, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), klog.Logger{}))
	keeper := make(chan struct{})
	go func() { // joined below
		defer close(keeper)
		elector.Run(keep)
	}()
	select {
	case <-ctx.Done():
	case <-l.acquired:
		err = k.lead(ctx, l, keeper, body)
	}
	stop()
	<-keeper
	if err != nil || !l.tried {
		return err
	}
	if err := l.release(ctx); err != nil && l.reason() == "" {
		k.cfg.Logger.WarnContext(ctx, "lease not released, others wait until it ends", "error", err.Error())
	}
	return nil
}

// lead runs body while the Lease is held. It returns after body has, or with
// ErrOverstayed.
func (k *Kubernetes) lead(ctx context.Context, l *lock, keeper <-chan struct{}, body Body) error {
	if ctx.Err() != nil {
		return nil
	}
	k.leads.Store(l)
	defer k.leads.Store(nil)
	k.metrics.lead(true)
	defer k.metrics.lead(false)
	k.cfg.Logger.InfoContext(ctx, "lease acquired", "holder", k.cfg.Identity)

	leading, end := context.WithCancelCause(ctx)
	defer end(nil)
	done := make(chan error, 1)
	go func() { done <- body(leading) }() // joined here, unless it overstays
	err := k.watch(ctx, l, keeper, done, end)
	switch {
	case errors.Is(err, ErrOverstayed):
		return err
	case l.reason() != "":
	case err != nil && ctx.Err() == nil:
		k.cfg.Logger.ErrorContext(ctx, "leading ended, contending again", "error", err.Error())
	default:
		k.cfg.Logger.InfoContext(ctx, "leading ended")
	}
	return nil
}

// watch waits for the end of the body and gives what it returned, or
// ErrOverstayed. A loss of the lease is passed on to it at once.
func (k *Kubernetes) watch(ctx context.Context, l *lock, keeper <-chan struct{}, done <-chan error, end context.CancelCauseFunc) error {
	lost, allowed := l.lost, k.cfg.giveUp()
	for {
		// The elector has a deadline too, but counts it from its next try on.
		timeout := time.NewTimer(time.Until(l.renewedAt().Add(allowed)))
		select {
		case err := <-done:
			timeout.Stop()
			return err
		case <-lost:
			lost, allowed = nil, k.cfg.overstay()
			k.cfg.Logger.WarnContext(ctx, "lease lost", "error", l.reason())
			end(fmt.Errorf("%w: %s", k.cfg.LostCause, l.reason()))
		case <-keeper:
			keeper = nil
			l.lose("it was not renewed in time")
		case <-timeout.C:
			if time.Since(l.renewedAt()) < allowed {
				continue
			}
			if lost != nil {
				l.lose("it was not renewed in time")
				continue
			}
			select {
			case err := <-done:
				return err
			default:
				return ErrOverstayed
			}
		}
		timeout.Stop()
	}
}
