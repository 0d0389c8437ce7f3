package lease

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var (
	errMissing = errors.New("the lease does not exist, and it is not created")
	errNotRead = errors.New("the lease has not been read yet")
)

// lock is the Lease as client-go's elector sees it, for one stretch from
// contending to release. Besides what the elector asks of it, it knows when
// leadership begins, how long it lasts, and at once when it is lost.
//
// One goroutine at a time calls the methods of resourcelock.Interface and
// release; the others are safe for concurrent use.
type lock struct {
	cfg    *KubernetesConfig
	health *health
	lease  *coordinationv1.Lease // as it was last read or written
	tried  bool                  // an update in our name was sent

	acquired chan struct{} // closed when the Lease is ours for the first time
	lost     chan struct{} // closed when it is not ours any more

	mu      sync.Mutex
	renewed time.Time // when the last update that took effect was sent; guarded by mu
	why     string    // why it was lost, "" when it was not; guarded by mu
}

func newLock(cfg *KubernetesConfig, h *health) *lock {
	return &lock{cfg: cfg, health: h, acquired: make(chan struct{}), lost: make(chan struct{})}
}

// Get reads the record.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	call, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	lease, err := l.cfg.Client.Leases(l.cfg.Namespace).Get(call, l.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, l.failed(ctx, operationGet, err)
	}
	l.health.succeeded(ctx, operationGet)
	l.lease = lease
	record := l.present(&lease.Spec)
	if record.HolderIdentity != l.cfg.Identity {
		l.lose("the lease names another holder, or none")
		l.health.follows(ctx, record.HolderIdentity)
	}
	// The elector waits anew whenever these bytes change, so they hold the
	// renewal to the microsecond, and nothing but the record.
	raw, err := json.Marshal(lease.Spec)
	return record, raw, err
}

// present gives the record as the elector is to take it. It waits for the
// duration that the record names, which may come from another version or
// another hand.
func (l *lock) present(spec *coordinationv1.LeaseSpec) *resourcelock.LeaderElectionRecord {
	record := resourcelock.LeaseSpecToLeaderElectionRecord(spec)
	if record.LeaseDurationSeconds <= 0 {
		record.LeaseDurationSeconds = int(l.cfg.Duration / time.Second)
	}
	record.LeaseDurationSeconds = min(record.LeaseDurationSeconds, int(MaxDuration/time.Second))
	return record
}

// Create is never called, because Get does not say that a Lease is missing.
func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return errMissing }

// Update writes the record into the Lease that was last read or written, and
// leaves alone what else the Lease holds.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.lease == nil {
		return errNotRead
	}
	ours := record.HolderIdentity == l.cfg.Identity
	l.tried = l.tried || ours
	lease := l.lease.DeepCopy()
	spec := resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = spec.HolderIdentity, spec.LeaseDurationSeconds
	lease.Spec.AcquireTime, lease.Spec.RenewTime = spec.AcquireTime, spec.RenewTime
	lease.Spec.LeaseTransitions = spec.LeaseTransitions

	call, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	// Others may see the update as soon as it is sent, and wait from then on.
	sent := time.Now()
	updated, err := l.cfg.Client.Leases(l.cfg.Namespace).Update(call, lease, metav1.UpdateOptions{})
	if err != nil {
		return l.failed(ctx, operationUpdate, err)
	}
	l.health.succeeded(ctx, operationUpdate)
	l.lease = updated
	if ours {
		l.health.follows(ctx, "")
		l.extend(sent)
	}
	return nil
}

// RecordEvent does nothing: an event would need one more permission.
func (l *lock) RecordEvent(string) {}

// Identity names this process.
func (l *lock) Identity() string { return l.cfg.Identity }

// Describe names the Lease.
func (l *lock) Describe() string { return l.cfg.Namespace + "/" + l.cfg.Name }

// failed notes a failure. One after which we cannot be the leader any more
// ends leadership at once. The error that it gives is never a NotFound, which
// the elector would answer with a create.
func (l *lock) failed(ctx context.Context, operation string, err error) error {
	if ctx.Err() != nil {
		return err // we ended the call ourselves
	}
	reason := reasonOf(err)
	l.health.failed(ctx, operation, reason, err)
	switch reason {
	case reasonGone:
		l.lose("the lease does not exist")
		return errMissing
	case reasonForbidden, reasonUnauthorized:
		l.lose("access to the lease is denied")
	}
	return err
}

func (l *lock) extend(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() {
		close(l.acquired)
	}
	l.renewed = sent
}

// lose ends leadership, if it has begun and has not ended yet.
func (l *lock) lose(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() || l.why != "" {
		return
	}
	l.why = why
	close(l.lost)
}

// reason says why leadership was lost.
func (l *lock) reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// renewedAt is when the last renewal was sent.
func (l *lock) renewedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed
}

// left is how long nobody else will lead, 0 when that is not known.
func (l *lock) left(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() || l.why != "" {
		return 0
	}
	return max(0, l.cfg.Duration-now.Sub(l.renewed))
}

// release empties the holder if it is us, so that nobody has to wait for the
// end of the lease. The duration stays positive: the API server takes no
// other. A renewal that we broke off may take effect meanwhile, hence the
// further tries.
func (l *lock) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.CallTimeout)
	defer cancel()
	for {
		record, _, err := l.Get(ctx)
		if err != nil || record.HolderIdentity != l.cfg.Identity {
			return err
		}
		now := metav1.Now()
		record.HolderIdentity, record.AcquireTime, record.RenewTime = "", now, now
		if err = l.Update(ctx, *record); !apierrors.IsConflict(err) {
			return err
		}
	}
}
