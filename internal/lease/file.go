package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gofrs/flock"
	"github.com/prometheus/client_golang/prometheus"
)

// Body is what the leader does. It returns when ctx ends, or earlier with an
// error, after which the lease is contended for anew.
type Body func(ctx context.Context) error

// FileConfig is what a File needs.
type FileConfig struct {
	// Path of the lock file; it is created and stays. Its directory must be
	// on a local file system.
	Path string
	// Election tells several elections of one process apart, in metrics.
	Election string
	// RetryPeriod is the wait between two tries to get the lock, and after a
	// body that failed; 1.5 s when 0.
	RetryPeriod time.Duration
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
}

// File is leadership by an exclusive lock on a file. The kernel releases it
// when the process dies, so it is never left behind and needs no expiry.
type File struct {
	cfg         FileConfig
	leads       prometheus.Gauge
	transitions prometheus.Counter
}

// NewFile checks the configuration. It does no I/O.
func NewFile(cfg FileConfig) (*File, error) {
	if cfg.Path == "" || cfg.Logger == nil || cfg.Registerer == nil {
		return nil, errors.New("lease: path, logger and registerer are required")
	}
	if cfg.RetryPeriod == 0 {
		cfg.RetryPeriod = 1500 * time.Millisecond
	}
	leader := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "graphsubd_leader", Help: "1 while this process leads.",
	}, []string{"election"})
	transitions := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "graphsubd_lease_transitions_total", Help: "How often this process gained the lease.",
	})
	for _, collector := range []prometheus.Collector{leader, transitions} {
		if err := cfg.Registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("lease: %w", err)
		}
	}
	return &File{cfg: cfg, leads: leader.WithLabelValues(cfg.Election), transitions: transitions}, nil
}

// Run contends for the lock until ctx ends and runs body while it holds it. A
// body that ends early is logged, and the lock is contended for anew after the
// retry period. It returns nil once ctx has ended and the lock is released.
func (f *File) Run(ctx context.Context, body Body) error {
	waiting := false
	for ctx.Err() == nil {
		lock := flock.New(f.cfg.Path)
		held, err := lock.TryLock()
		switch {
		case err != nil:
			f.cfg.Logger.ErrorContext(ctx, "lease file cannot be locked, not leading",
				"path", f.cfg.Path, "error", err.Error())
		case held:
			waiting = false
			f.lead(ctx, lock, body)
		case !waiting:
			waiting = true
			f.cfg.Logger.InfoContext(ctx, "another process leads, waiting", "path", f.cfg.Path)
		}
		select {
		case <-ctx.Done():
		case <-time.After(f.cfg.RetryPeriod):
		}
	}
	return nil
}

// lead runs body and releases the lock after it has returned, never before.
func (f *File) lead(ctx context.Context, lock *flock.Flock, body Body) {
	f.leads.Set(1)
	f.transitions.Inc()
	err := body(ctx)
	f.leads.Set(0)
	if unlockErr := lock.Unlock(); unlockErr != nil {
		err = errors.Join(err, fmt.Errorf("release lease: %w", unlockErr))
	}
	if err != nil && ctx.Err() == nil {
		f.cfg.Logger.ErrorContext(ctx, "leading ended, contending again", "error", err.Error())
	}
}
