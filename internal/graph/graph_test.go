package graph_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

func answer(op graph.Operation, status int, code, message string) *graph.Error {
	return &graph.Error{
		Operation: op, Status: status, Code: code, Message: message,
		Enveloped: code != "", Embedded: graph.EmbeddedStatus(message),
	}
}

func TestClassify(t *testing.T) {
	wrapped := func(status string) string {
		return "Operation: Update; Exception: [Status Code: " + status + "; Reason: x]"
	}
	tests := []struct {
		name string
		err  error
		want graph.Reason
	}{
		{"nothing", nil, ""},
		{"no answer", &graph.Error{Operation: graph.OperationRenew, Err: errors.New("reset")}, graph.ReasonTransient},
		{"deadline", fmt.Errorf("renew: %w", context.DeadlineExceeded), graph.ReasonTransient},
		{"lease", fmt.Errorf("x: %w", graph.ErrLeaseLost), graph.ReasonLeaseLost},
		{"term", fmt.Errorf("x: %w", graph.ErrTermLost), graph.ReasonTermLost},
		{"store", fmt.Errorf("x: %w", graph.ErrStoreUnavailable), graph.ReasonStoreUnavailable},
		{"foreign", errors.New("odd"), graph.ReasonUnknown},
		{"gone", answer(graph.OperationRenew, 404, "ResourceNotFound", "The object was not found."), graph.ReasonGone},
		{"proxy's 404", answer(graph.OperationRenew, 404, "", ""), graph.ReasonTransient},
		{"embedded 404 on renew", answer(graph.OperationRenew, 404, "ExtensionError", wrapped("NotFound")), graph.ReasonUnknown},
		{"embedded 404 on create", answer(graph.OperationCreate, 404, "ExtensionError", wrapped("NotFound")), graph.ReasonInvalid},
		{"401", answer(graph.OperationGet, 401, "InvalidAuthenticationToken", ""), graph.ReasonUnauthorized},
		{"embedded 401", answer(graph.OperationRenew, 500, "ExtensionError", wrapped("Unauthorized")), graph.ReasonUnauthorized},
		{"quota", answer(graph.OperationCreate, 403, "ExtensionError", "Operation: Create; Exception: [Status Code: Forbidden; Reason: Maximum number of subscriptions has been reached]"), graph.ReasonQuota},
		{"permission", answer(graph.OperationCreate, 403, "ExtensionError", "Operation: Create; Exception: [Status Code: Forbidden; Reason: Forbidden]"), graph.ReasonForbidden},
		{"409", answer(graph.OperationCreate, 409, "Conflict", "Subscription Id <> already exists for the requested combination"), graph.ReasonConflict},
		{"429", answer(graph.OperationRenew, 429, "TooManyRequests", "Please retry again later."), graph.ReasonThrottled},
		{"embedded 429", answer(graph.OperationRenew, 500, "ExtensionError", wrapped("TooManyRequests")), graph.ReasonThrottled},
		{"handshake", answer(graph.OperationCreate, 400, "ValidationError", "Subscription validation request failed. HTTP status code is 'Forbidden'."), graph.ReasonHandshakeFailed},
		{"handshake, other code", answer(graph.OperationRenew, 400, "InvalidRequest", "Subscription validation request timed out."), graph.ReasonHandshakeFailed},
		{"expiry", answer(graph.OperationCreate, 400, "ExtensionError", "Subscription expiration can only be 4230 minutes in the future."), graph.ReasonExpiryLimited},
		{"permanent although 500", answer(graph.OperationCreate, 500, "ExtensionError", "Operation: Create; Exception: [Specified method is not supported.]"), graph.ReasonInvalid},
		{"embedded 503", answer(graph.OperationCreate, 400, "ExtensionError", wrapped("ServiceUnavailable")), graph.ReasonTransient},
		{"502 with HTML", answer(graph.OperationRenew, 502, "", ""), graph.ReasonTransient},
		{"400", answer(graph.OperationCreate, 400, "InvalidRequest", "resource 'x' is not supported."), graph.ReasonInvalid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := graph.Classify(test.err); got != test.want {
				t.Errorf("Classify(%v) = %q, want %q", test.err, got, test.want)
			}
		})
	}
}

func TestGoneIsGraphsOwnWord(t *testing.T) {
	tests := []struct {
		name string
		err  *graph.Error
		want bool
	}{
		{"renew", answer(graph.OperationRenew, 404, "ResourceNotFound", ""), true},
		{"get", answer(graph.OperationGet, 404, "ResourceNotFound", ""), true},
		{"delete", answer(graph.OperationDelete, 404, "ResourceNotFound", ""), true},
		{"create", answer(graph.OperationCreate, 404, "ResourceNotFound", ""), false},
		{"list", answer(graph.OperationList, 404, "ResourceNotFound", ""), false},
		{"no envelope", answer(graph.OperationRenew, 404, "", ""), false},
		{"embedded", answer(graph.OperationRenew, 404, "ExtensionError", "[Status Code: NotFound; Reason: x]"), false},
		{"410", answer(graph.OperationRenew, 410, "Gone", ""), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := errors.Is(fmt.Errorf("renew: %w", test.err), graph.ErrSubscriptionGone); got != test.want {
				t.Errorf("gone = %v, want %v", got, test.want)
			}
		})
	}
}

func TestNeedsGet(t *testing.T) {
	embedded := answer(graph.OperationRenew, 400, "ExtensionError", "[Status Code: NotFound; Reason: x]")
	outlook := answer(graph.OperationRenew, 400, "ErrorInvalidParameter", "")
	create := answer(graph.OperationCreate, 400, "ErrorInvalidParameter", "")
	plain := answer(graph.OperationRenew, 404, "ResourceNotFound", "")
	if !embedded.NeedsGet() || !outlook.NeedsGet() || create.NeedsGet() || plain.NeedsGet() {
		t.Error("only a doubtful answer to a renewal needs a GET")
	}
}

func TestAmbiguous(t *testing.T) {
	for _, test := range []struct {
		err  *graph.Error
		want bool
	}{
		{&graph.Error{Operation: graph.OperationCreate, Err: errors.New("reset")}, true},
		{&graph.Error{Operation: graph.OperationCreate, Unsent: true, Err: errors.New("no token")}, false},
		{answer(graph.OperationCreate, 504, "", ""), true},
		{answer(graph.OperationCreate, 503, "ServiceUnavailable", ""), true},
		{answer(graph.OperationCreate, 404, "", ""), true},
		{answer(graph.OperationCreate, 429, "TooManyRequests", ""), false},
		{answer(graph.OperationCreate, 400, "InvalidRequest", ""), false},
		{answer(graph.OperationCreate, 500, "ExtensionError", "Specified method is not supported"), false},
	} {
		if got := test.err.Ambiguous(); got != test.want {
			t.Errorf("Ambiguous(%v) = %v, want %v", test.err, got, test.want)
		}
	}
}

func TestExpiryLimit(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"Subscription expiration can only be 10070 minutes in the future.": 10070 * time.Minute,
		"Subscription expiration can only be 1 minutes in the future.":     time.Minute,
		"Subscription expiration can only be so long":                      0,
		"Subscription expiration can only be 99999999999 minutes":          0,
	} {
		got, ok := answer(graph.OperationCreate, 400, "ExtensionError", message).ExpiryLimit()
		if got != want || ok != (want != 0) {
			t.Errorf("ExpiryLimit(%q) = %v, %v", message, got, ok)
		}
	}
}

func TestConflictID(t *testing.T) {
	const id = "22222222-2222-4222-8222-222222222222"
	named := answer(graph.OperationCreate, 409, "Conflict", "Subscription Id "+id+" already exists for the requested combination")
	unnamed := answer(graph.OperationCreate, 409, "Conflict", "Subscription Id <> already exists for the requested combination")
	other := answer(graph.OperationCreate, 400, "InvalidRequest", id)
	if named.ConflictID() != id || unnamed.ConflictID() != "" || other.ConflictID() != "" {
		t.Errorf("ids: %q %q %q", named.ConflictID(), unnamed.ConflictID(), other.ConflictID())
	}
}

func TestEmbeddedStatus(t *testing.T) {
	for message, want := range map[string]int{
		"Operation: Create; Exception: [Status Code: Forbidden; Reason: x]":          http.StatusForbidden,
		"Operation: Create; Exception: [Status Code: ServiceUnavailable; Reason: x]": http.StatusServiceUnavailable,
		"Operation: Update; Exception: [Status Code: NotFound; Reason: x]":           http.StatusNotFound,
		"Operation: Update; Exception: [Status Code: Nonsense; Reason: x]":           0,
		"not wrapped": 0,
	} {
		if got := graph.EmbeddedStatus(message); got != want {
			t.Errorf("EmbeddedStatus(%q) = %d, want %d", message, got, want)
		}
	}
}

func TestGenChangesWithWhatCannotBePatched(t *testing.T) {
	base := graph.Wish{Name: "a", TenantID: "T", Resource: "users", ChangeTypes: []graph.ChangeType{graph.Updated, graph.Deleted}}
	const url = "https://hooks.contoso.com"
	gen := graph.GenOf(base, url, "k1")
	same := base
	same.ChangeTypes = []graph.ChangeType{graph.Deleted, graph.Updated}
	same.Sinks, same.Lifetime, same.Paused = []string{"x"}, time.Hour, true
	if graph.GenOf(same, url, "k1") != gen {
		t.Error("what can be patched, or is ours alone, changed the gen")
	}
	for what, change := range map[string]func(*graph.Wish){
		"tenant":    func(w *graph.Wish) { w.TenantID = "U" },
		"resource":  func(w *graph.Wish) { w.Resource = "groups" },
		"types":     func(w *graph.Wish) { w.ChangeTypes = w.ChangeTypes[:1] },
		"immutable": func(w *graph.Wish) { w.ImmutableIDs = true },
		"rotation":  func(w *graph.Wish) { w.Rotation = 1 },
	} {
		wish := base
		change(&wish)
		if graph.GenOf(wish, url, "k1") == gen {
			t.Errorf("%s did not change the gen", what)
		}
	}
	if graph.GenOf(base, url, "k2") == gen || graph.GenOf(base, url+"/x", "k1") == gen {
		t.Error("another key, or another URL, did not change the gen")
	}
}
