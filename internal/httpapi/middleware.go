package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// below routes by what follows the base path. Paths are matched in lower case,
// because some hops fold them; nothing in them depends on case.
func (r *Receiver) below(base string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			path, found := strings.CutPrefix(strings.ToLower(req.URL.Path), base)
			if !found || path == "" {
				// Perhaps a subscription that was made under another publicURL.
				r.metrics.count(VerdictRefused, notification.ReasonUnknownSubscription, 1)
				leaveBody(w, req)
				http.NotFound(w, req)
				return
			}
			chi.RouteContext(req.Context()).RoutePath = path
			next.ServeHTTP(w, req)
		})
	}
}

// guard turns a panic into what fail answers, which is a 500. The value of a
// panic may hold what a request said, so only the runtime's own errors are
// written out.
func guard(panics prometheus.Counter, log *slog.Logger, fail http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			ctx := req.Context()
			defer func() {
				value := recover()
				if value == nil {
					return
				}
				if err, ok := value.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(value)
				}
				panics.Inc()
				log.ErrorContext(ctx, "handler panicked", "error", textOf(value), "stack", string(debug.Stack()))
				fail(w, req)
			}()
			next.ServeHTTP(w, req)
		})
	}
}

// failPlainly is the public listener's answer to a panic.
func failPlainly(w http.ResponseWriter, req *http.Request) {
	leaveBody(w, req)
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}

// textOf gives the words of a runtime error, and of anything else its type.
func textOf(value any) string {
	if fault, ok := value.(runtime.Error); ok {
		return fault.Error()
	}
	return fmt.Sprintf("%T", value)
}
