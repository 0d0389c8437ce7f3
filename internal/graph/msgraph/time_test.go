package msgraph_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// hang waits until the request is given up.
func hang(r *http.Request) { <-r.Context().Done() }

func TestTimeouts(t *testing.T) {
	for operation, want := range map[graph.Operation]time.Duration{
		opCreate: 40 * time.Second, opRenew: 20 * time.Second, opGet: 20 * time.Second,
		opDelete: 20 * time.Second, opReauth: 20 * time.Second, opList: 20 * time.Second,
	} {
		t.Run(string(operation), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tenant := newFake(reply{status: 504, before: hang}).tenant(t)
				started := time.Now()
				err := perform(t.Context(), tenant, operation)
				if took := time.Since(started); took != want {
					t.Errorf("gave up after %v, want %v", took, want)
				}
				fault := faultOf(t, err)
				if fault.Status != 0 || !fault.Ambiguous() || !errors.Is(err, context.DeadlineExceeded) ||
					graph.Classify(err) != graph.ReasonTransient {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestTheCallersDeadlineIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		started := time.Now()
		err := perform(ctx, newFake(reply{status: 504, before: hang}).tenant(t), opCreate)
		if took := time.Since(started); took != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("gave up after %v with %v", took, err)
		}
	})
}

func TestALostLeaseEndsAWriteAtOnce(t *testing.T) {
	for _, operation := range []graph.Operation{opCreate, opRenew, opDelete, opReauth} {
		t.Run(string(operation), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(reply{status: 504, before: hang})
				tenant := f.tenant(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				started := time.Now()
				time.AfterFunc(5*time.Second, func() { cancel(graph.ErrLeaseLost) })
				err := perform(ctx, tenant, operation)
				if took := time.Since(started); took != 5*time.Second {
					t.Errorf("ended after %v", took)
				}
				if !errors.Is(err, graph.ErrLeaseLost) || !errors.Is(err, context.Canceled) ||
					graph.Classify(err) != graph.ReasonLeaseLost || faultOf(t, err).Status != 0 {
					t.Errorf("got %v", err)
				}
				// What comes after the end is not sent at all.
				if err := perform(ctx, tenant, operation); !errors.Is(err, graph.ErrLeaseLost) || len(f.requests()) != 1 {
					t.Errorf("%d requests, %v", len(f.requests()), err)
				}
			})
		})
	}
}

func TestAnAnswerAfterTheEndDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		f := newFake(reply{status: 404, body: envelope("ResourceNotFound", ""), before: func(*http.Request) { cancel(graph.ErrLeaseLost) }})
		err := perform(ctx, f.tenant(t), opRenew)
		if errors.Is(err, graph.ErrSubscriptionGone) || !errors.Is(err, graph.ErrLeaseLost) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAHangingLoginIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newFake().config()
		cfg.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			hang(r)
			return nil, r.Context().Err()
		})
		tenant := newClient(t, cfg).Tenant(tenantOne)
		started := time.Now()
		err := perform(t.Context(), tenant, opRenew)
		if took := time.Since(started); took != 20*time.Second || faultOf(t, err).Status != 0 ||
			graph.Classify(err) != graph.ReasonTransient {
			t.Errorf("gave up after %v with %v", took, err)
		}
	})
}

func TestSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(ahead time.Duration) map[string]string {
			return map[string]string{"Date": time.Now().Add(ahead).UTC().Format(http.TimeFormat)}
		}
		f := newFake(
			reply{status: 204, header: at(4 * time.Minute)},
			reply{status: 404, body: envelope("ResourceNotFound", ""), header: at(-3 * time.Second)},
			reply{status: 502, body: "<html/>", header: at(time.Hour)},
			reply{status: 204},
		)
		client := newClient(t, f.config())
		if client.Skew() != 0 {
			t.Errorf("skew before any answer: %v", client.Skew())
		}
		for _, want := range []time.Duration{4 * time.Minute, -3 * time.Second, -3 * time.Second, -3 * time.Second} {
			_ = client.Tenant(tenantOne).Delete(t.Context(), idOne)
			if got := client.Skew(); got != want {
				t.Errorf("skew %v, want %v", got, want)
			}
		}
	})
}
