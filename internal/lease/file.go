package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/gofrs/flock"
	"github.com/prometheus/client_golang/prometheus"
)

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
	cfg     FileConfig
	metrics *metrics
}

// NewFile checks the configuration. It does no I/O.
func NewFile(cfg FileConfig) (*File, error) {
	if cfg.Path == "" || cfg.Logger == nil || cfg.Registerer == nil {
		return nil, errors.New("lease: path, logger and registerer are required")
	}
	if cfg.RetryPeriod == 0 {
		cfg.RetryPeriod = 1500 * time.Millisecond
	}
	m, err := newMetrics(cfg.Registerer, cfg.Election)
	if err != nil {
		return nil, err
	}
	return &File{cfg: cfg, metrics: m}, nil
}

// Left is how long the lease lasts at least, for a body to ask: for ever.
func (f *File) Left() time.Duration { return math.MaxInt64 }

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
			f.metrics.errors.WithLabelValues(reasonTransient).Inc()
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
	f.metrics.lead(true)
	err := body(ctx)
	f.metrics.lead(false)
	if unlockErr := lock.Unlock(); unlockErr != nil {
		err = errors.Join(err, fmt.Errorf("release lease: %w", unlockErr))
	}
	if err != nil && ctx.Err() == nil {
		f.cfg.Logger.ErrorContext(ctx, "leading ended, contending again", "error", err.Error())
	}
}
