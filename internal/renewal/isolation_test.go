package renewal_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// slow is an operation that brings no answer for so long.
func slow(ctx context.Context, op graph.Operation, long time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
	return unanswered(op)
}

// Thousands of tenants of one app, of which some are bad, each in a way of its
// own: only those wait, and only they have a reason.
func TestBadTenantsHurtOnlyThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttled := &graph.Error{Operation: graph.OperationCreate, Status: 429, Code: "TooManyRequests", Enveloped: true, RetryAfter: time.Hour}
		bad := map[string]struct {
			before func(ctx context.Context, op graph.Operation, id string) error
			reason graph.Reason // after a minute
		}{
			"t0100": {func(ctx context.Context, op graph.Operation, _ string) error { return slow(ctx, op, time.Minute) }, ""},
			"t0200": {refusing(graph.OperationCreate, answered(graph.OperationCreate, 401, "InvalidAuthenticationToken", ""), always), graph.ReasonUnauthorized},
			"t0300": {refusing(graph.OperationCreate, answered(graph.OperationCreate, 403, "Forbidden", ""), always), graph.ReasonForbidden},
			"t0400": {refusing(graph.OperationCreate, throttled, always), graph.ReasonThrottled},
			"t0500": {refusing(graph.OperationList, answered(graph.OperationList, 500, "UnknownError", ""), always), graph.ReasonTransient},
			"t0600": {refusing(graph.OperationList, answered(graph.OperationList, 403, "Forbidden", ""), always), graph.ReasonForbidden},
		}
		const tenants = 2000
		s := newFakeStore()
		w := newWorld(t, newFakeGraph(week), s)
		desired := renewal.Desired{}
		graphs := map[string]*fakeGraph{}
		for i := range tenants {
			name := fmt.Sprintf("t%04d", i)
			g := newFakeGraph(week)
			if fault, is := bad[name]; is {
				g.answer(fault.before)
			}
			graphs[name] = g
			desired.Tenants = append(desired.Tenants, renewal.Tenant{Name: name, App: "hooks", Client: g, Scale: 1, QuotaShare: 0.9})
			one := wish("s-" + name)
			one.Tenant = name
			desired.Wishes = append(desired.Wishes, one)
		}
		if err := w.manager.SetDesired(desired); err != nil {
			t.Fatal(err)
		}
		w.lead()
		// The app may write 1,800 times in 20 s.
		time.Sleep(time.Minute)
		synctest.Wait()
		for name, g := range graphs {
			fault, is := bad[name]
			if lives := len(g.ids()) == 1; lives == is {
				t.Errorf("%s: lives %v", name, lives)
			}
			s.mu.Lock()
			r := s.records[graph.Key{Name: "s-" + name, Gen: "g"}]
			s.mu.Unlock()
			if r.Reason != fault.reason {
				t.Errorf("%s: reason %q, want %q", name, r.Reason, fault.reason)
			}
		}
		if err := w.stop(graph.ErrLeaseLost); err != nil {
			t.Error(err)
		}
	})
}

// A tenant with more subscriptions than calls may be under way at once, none of
// which brings an answer.
func TestLargeTenantThatHangsLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad, s := newFakeGraph(week), newFakeGraph(week), newFakeStore()
		bad.answer(func(ctx context.Context, op graph.Operation, _ string) error {
			if op == graph.OperationList {
				return nil
			}
			return slow(ctx, op, 10*time.Minute)
		})
		w := newWorld(t, good, s)
		desired := renewal.Desired{Tenants: []renewal.Tenant{
			{Name: "bad", App: "one", Client: bad, Scale: 1, QuotaShare: 0.9},
			{Name: "good", App: "two", Client: good, Scale: 1, QuotaShare: 0.9},
		}}
		for n := range 2000 {
			one := wish(fmt.Sprint("bad-", n))
			one.Tenant = "bad"
			desired.Wishes = append(desired.Wishes, one)
		}
		if err := w.manager.SetDesired(desired); err != nil {
			t.Fatal(err)
		}
		w.lead()
		time.Sleep(2 * time.Minute)
		for n := range 20 {
			one := wish(fmt.Sprint("good-", n))
			one.Tenant = "good"
			desired.Wishes = append(desired.Wishes, one)
		}
		if err := w.manager.SetDesired(desired); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := len(good.ids()); n != 20 {
			t.Errorf("%d of 20 live beside a large tenant that hangs", n)
		}
		if err := w.stop(graph.ErrLeaseLost); err != nil {
			t.Error(err)
		}
	})
}

// While the listing of one tenant fails, another that waits for its own is not
// said to fail.
func TestListingThatFailsExplainsItsOwnTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, bad, s := newFakeGraph(week), newFakeGraph(week), newFakeStore()
		late.answer(func(_ context.Context, op graph.Operation, _ string) error {
			if op == graph.OperationList {
				time.Sleep(20 * time.Second)
			}
			return nil
		})
		bad.answer(refusing(graph.OperationList, answered(graph.OperationList, 403, "Forbidden", ""), always))
		w := newWorld(t, late, s)
		one, other := wish("late"), wish("bad")
		one.Tenant, other.Tenant = "late", "bad"
		err := w.manager.SetDesired(renewal.Desired{
			Tenants: []renewal.Tenant{
				{Name: "late", App: "hooks", Client: late, Scale: 1, QuotaShare: 0.9},
				{Name: "bad", App: "hooks", Client: bad, Scale: 1, QuotaShare: 0.9},
			},
			Wishes: []graph.Wish{one, other},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.lead()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if r := s.record(t, "bad", "g"); r.Reason != graph.ReasonForbidden {
			t.Errorf("the one that fails: %+v", r)
		}
		s.mu.Lock()
		if r := s.records[graph.Key{Name: "late", Gen: "g"}]; r.Reason != "" {
			t.Errorf("the one that waits: %+v", r)
		}
		s.mu.Unlock()
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}
