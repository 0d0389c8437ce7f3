package lease

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The two calls that the elector makes.
const (
	operationGet    = "get"
	operationUpdate = "update"
)

// health counts the failures of the API and logs them, once for each change
// of the reason. One goroutine at a time uses it.
type health struct {
	log     *slog.Logger
	metrics *metrics
	// reasons has why an operation failed the last time. The permissions for
	// the two may differ, so one of them may fail for ever and the other not.
	reasons map[string]string
	missing bool   // the Lease is
	holder  string // whom we wait for
}

func newHealth(log *slog.Logger, m *metrics) *health {
	return &health{log: log, metrics: m, reasons: map[string]string{}}
}

func (h *health) failed(ctx context.Context, operation, reason string, err error) {
	h.metrics.errors.WithLabelValues(reason).Inc()
	switch {
	case reason == reasonConflict:
		// Another process was faster, which is how an election goes.
	case reason == reasonGone:
		if !h.missing {
			h.missing = true
			h.log.WarnContext(ctx, "lease does not exist, nobody leads until it is put back", "reason", reason)
		}
	case reason != h.reasons[operation]:
		h.reasons[operation] = reason
		h.log.WarnContext(ctx, "lease cannot be used", "operation", operation, "reason", reason, "error", err.Error())
	}
}

func (h *health) succeeded(ctx context.Context, operation string) {
	if h.missing || h.reasons[operation] != "" {
		h.log.InfoContext(ctx, "lease can be used again", "operation", operation)
	}
	h.missing = false
	delete(h.reasons, operation)
}

// follows notes who leads when it is not us.
func (h *health) follows(ctx context.Context, holder string) {
	if holder != h.holder && holder != "" {
		h.log.InfoContext(ctx, "another process leads, waiting", "holder", holder)
	}
	h.holder = holder
}

func reasonOf(err error) string {
	switch {
	case apierrors.IsNotFound(err):
		return reasonGone
	case apierrors.IsForbidden(err):
		return reasonForbidden
	case apierrors.IsUnauthorized(err):
		return reasonUnauthorized
	case apierrors.IsConflict(err):
		return reasonConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return reasonInvalid
	case apierrors.IsTooManyRequests(err):
		return reasonThrottled
	}
	return reasonTransient
}
