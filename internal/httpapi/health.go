package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Readiness is the conjunction of named conditions, which the application sets
// as they come true: that the listener serves, that the configuration is
// valid, that the store was opened once. A later outage of the store is not
// one of them: an unready pod would fail handshakes that need no store.
type Readiness struct {
	mu         sync.Mutex
	conditions map[string]bool // guarded by mu
}

// NewReadiness takes the names of all conditions; none holds yet.
func NewReadiness(conditions ...string) *Readiness {
	r := &Readiness{conditions: make(map[string]bool, len(conditions))}
	for _, name := range conditions {
		r.conditions[name] = false
	}
	return r
}

// Set says whether a condition holds now. A name that is new is added.
func (r *Readiness) Set(name string, holds bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conditions[name] = holds
}

// Missing lists the conditions that do not hold, sorted; none means ready.
func (r *Readiness) Missing() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := []string{}
	for name, holds := range r.conditions {
		if !holds {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// NewHealth is the handler of the telemetry port: /livez, /readyz and
// /metrics. Alive is who answers: no store, API server or Graph is asked,
// since a restart would mend none of them.
func NewHealth(gatherer prometheus.Gatherer, readiness *Readiness) http.Handler {
	routes := chi.NewRouter()
	routes.Get("/livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "alive\n")
	})
	routes.Get("/readyz", readiness.serve)
	routes.Handle("/metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	return routes
}

// serve answers 200 or 503 and names what is missing.
func (r *Readiness) serve(w http.ResponseWriter, _ *http.Request) {
	answer := struct {
		Ready   bool     `json:"ready"`
		Missing []string `json:"missing"`
	}{Missing: r.Missing()}
	answer.Ready = len(answer.Missing) == 0
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	body, err := json.Marshal(answer)
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// When the client is gone there is nobody left to tell.
	_, _ = w.Write(append(body, '\n'))
}
