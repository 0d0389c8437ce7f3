package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/httpapi"
)

func get(t *testing.T, handler http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	return w
}

func TestReadiness(t *testing.T) {
	readiness := httpapi.NewReadiness("store", "config", "listener")
	health := httpapi.NewHealth(newRig(t, nil).registry, readiness)
	assert := func(status int, missing ...string) {
		t.Helper()
		w := get(t, health, "/readyz")
		var answer struct {
			Ready   bool     `json:"ready"`
			Missing []string `json:"missing"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if w.Code != status || answer.Ready != (status == http.StatusOK) || !slices.Equal(answer.Missing, missing) {
			t.Errorf("answer %d %+v, want %d, missing %v", w.Code, answer, status, missing)
		}
	}
	assert(http.StatusServiceUnavailable, "config", "listener", "store")
	readiness.Set("config", true)
	readiness.Set("listener", true)
	assert(http.StatusServiceUnavailable, "store")
	readiness.Set("store", true)
	assert(http.StatusOK)
	readiness.Set("draining", false)
	assert(http.StatusServiceUnavailable, "draining")
	if w := get(t, health, "/livez"); w.Code != http.StatusOK {
		t.Errorf("alive while not ready: %d", w.Code)
	}
}

func TestMetricsAreServed(t *testing.T) {
	r := newRig(t, nil)
	r.accept(t, r.path(), collection(r.item(t, nil)))
	w := get(t, httpapi.NewHealth(r.registry, httpapi.NewReadiness()), "/metrics")
	if !strings.Contains(w.Body.String(), `graphsubd_notifications_total{reason="",verdict="accepted"} 1`) {
		t.Errorf("metrics: %s", w.Body)
	}
	if w := get(t, httpapi.NewHealth(r.registry, httpapi.NewReadiness()), "/"); w.Code != http.StatusNotFound {
		t.Errorf("/ answers %d", w.Code)
	}
}
