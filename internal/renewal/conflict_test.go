package renewal_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

const (
	idA = "aaaaaaaa-0000-4000-8000-000000000001"
	idB = "bbbbbbbb-0000-4000-8000-000000000002"
)

// conflicting refuses creates with a 409 while any subscription of the wish's
// resource lives, as Graph does for some resources; named says whether the
// answer names it.
func conflicting(g *fakeGraph, named bool) {
	g.answer(func(_ context.Context, op graph.Operation, _ string) error {
		ids := g.ids()
		if op != graph.OperationCreate || len(ids) == 0 {
			return nil
		}
		shown := "<>"
		if named {
			shown = ids[0]
		}
		return answered(op, 409, "Conflict", "Subscription Id "+shown+" already exists for the requested combination")
	})
}

// put makes a subscription live at Graph behind everybody's back.
func (f *fakeGraph) put(id, url string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[id] = graph.Subscription{ID: id, Resource: "users/u/messages", NotificationURL: url, ExpiresAt: time.Now().Add(week)}
}

// known makes the store one that has seen the tenant before, so that nothing
// is listed at the start.
func (f *fakeStore) known() *fakeStore {
	f.records[graph.Key{Name: "z", Gen: "g"}] = graph.Record{Name: "z", Gen: "g", Tenant: "contoso", State: graph.StatePending}
	return f
}

// What is parked because an older gen holds its place tries rarely; when that
// one goes it takes the place at once.
func TestReplacementTakesTheFreedPlaceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		conflicting(g, true)
		newer := wish("a")
		newer.Gen = "h"
		w.want(newer)
		time.Sleep(3 * 24 * time.Hour)
		if wait := time.Until(s.record(t, "a", "h").NextAt); wait < 10*time.Minute {
			t.Fatalf("its own next try is in %v, which proves nothing", wait)
		}
		g.remove("s1")
		s.tell(graph.LifecycleItem{ID: "1", Name: "a", Gen: "g", SubscriptionID: "s1", Event: "subscriptionRemoved", ReceivedAt: time.Now()})
		time.Sleep(5 * time.Second)
		if r := s.record(t, "a", "h"); r.State != graph.StateActive {
			t.Errorf("record %+v", r)
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

// showNothing is a listing that misses all.
func showNothing([]graph.Subscription) []graph.Subscription { return nil }

func TestConflictWithOurOwnIsAdopted(t *testing.T) {
	for _, named := range []bool{true, false} {
		t.Run(fmt.Sprintf("named %v", named), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := newFakeGraph(week), newFakeStore().known()
				g.put(idA, "https://our/a/g")
				conflicting(g, named)
				if named { // then no listing has to show it
					g.shown = showNothing
				}
				w := newWorld(t, g, s, wish("a"))
				w.lead()
				time.Sleep(3 * week)
				if err := w.stop(nil); err != nil {
					t.Error(err)
				}
				if r := s.record(t, "a", "g"); r.ID != idA || r.State != graph.StateActive {
					t.Errorf("record %+v", r)
				}
				if ids := g.ids(); len(ids) != 1 || g.count("delete") != 0 || g.count("renew "+idA) < 3 {
					t.Errorf("live %v", ids)
				}
			})
		})
	}
}

func TestConflictWithAForeignOneIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore().known()
		g.put(idA, "https://theirs/a/g")
		conflicting(g, true)
		var tries atomic.Int64
		before := g.before
		g.answer(func(ctx context.Context, op graph.Operation, id string) error {
			if op == graph.OperationCreate {
				tries.Add(1)
			}
			return before(ctx, op, id)
		})
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(2 * 24 * time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := tries.Load(); n < 2 || n > 25 {
			t.Errorf("%d tries in two days", n)
		}
		if g.count("delete") != 0 || g.count("renew") != 0 || len(g.ids()) != 1 {
			t.Errorf("the foreign one was touched: %v", g.calls)
		}
		if r := s.record(t, "a", "g"); r.State != graph.StateParked || r.Reason != graph.ReasonConflict || !strings.Contains(r.Detail, idA) {
			t.Errorf("record %+v", r)
		}
		parked := 0
		for _, event := range s.events {
			if event.Type == graph.EventSubscriptionParked {
				parked++
			}
		}
		if parked != 1 {
			t.Errorf("parked was told %d times", parked)
		}
	})
}

func TestReplacementWaitsWhereGraphAllowsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		conflicting(g, true)
		newer := wish("a")
		newer.Gen = "h"
		w.want(newer)
		time.Sleep(3 * week)
		if g.count("renew s1") < 3 || len(g.ids()) != 1 || g.count("delete") != 0 {
			t.Errorf("the older one is not kept alive: live %v", g.ids())
		}
		if r := s.record(t, "a", "h"); r.State != graph.StateParked || r.Reason != graph.ReasonConflict {
			t.Errorf("record %+v", r)
		}
		g.remove("s1")
		time.Sleep(week)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if r := s.record(t, "a", "h"); r.State != graph.StateActive || len(g.ids()) != 1 {
			t.Errorf("record %+v, live %v", r, g.ids())
		}
		// The gap began when the older one was last known to live, and ends
		// with the one that follows it.
		if len(s.gaps) != 1 || s.gaps[0].Cause != graph.GapRecreated || s.gaps[0].To.IsZero() {
			t.Errorf("gaps %+v", s.gaps)
		}
		if _, still := s.records[graph.Key{Name: "a", Gen: "g"}]; still {
			t.Error("the older record is still there")
		}
	})
}

func TestGoneAndThenNoQuotaIsTakenBack(t *testing.T) {
	t.Run("listed", func(t *testing.T) { goneAndThenNoQuota(t, nil) })
	t.Run("found by its id alone", func(t *testing.T) { goneAndThenNoQuota(t, showNothing) })
}

func goneAndThenNoQuota(t *testing.T, shown func([]graph.Subscription) []graph.Subscription) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		g.shown = shown
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		var hidden graph.Subscription
		g.mu.Lock()
		hidden = g.live["s1"]
		delete(g.live, "s1")
		g.mu.Unlock()
		var creates atomic.Int64
		g.answer(func(_ context.Context, op graph.Operation, _ string) error {
			if op == graph.OperationCreate {
				creates.Add(1)
				return answered(op, 403, "ExtensionError", "Operation: Create; Exception: [Status Code: Forbidden; Reason: Maximum number of subscriptions has been reached]")
			}
			return nil
		})
		time.Sleep(5 * 24 * time.Hour) // the renewal meets the 404 on the fifth day
		if creates.Load() == 0 || s.record(t, "a", "g").Reason != graph.ReasonQuota {
			t.Fatalf("%d creates, record %+v", creates.Load(), s.record(t, "a", "g"))
		}
		before := creates.Load()
		g.mu.Lock()
		hidden.ExpiresAt = time.Now().Add(3 * 24 * time.Hour)
		g.live["s1"] = hidden
		g.mu.Unlock()
		time.Sleep(24 * time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if r := s.record(t, "a", "g"); r.ID != "s1" || r.State != graph.StateActive {
			t.Errorf("record %+v", r)
		}
		if n := creates.Load(); n != before || n > 12 {
			t.Errorf("%d creates, %d of them after it was back", n, n-before)
		}
	})
}

func TestDuplicateIsDeletedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		g.put(idA, "https://our/a/g")
		g.put(idB, "https://theirs/a/g")
		time.Sleep(3 * 24 * time.Hour) // the sweep comes within a day
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if ids := g.ids(); !slices.Equal(ids, []string{idB, "s1"}) {
			t.Errorf("live are %v, want the recorded one and the foreign one", ids)
		}
		if n := g.count("delete"); n != 1 {
			t.Errorf("%d deletes", n)
		}
		if len(s.records) != 1 {
			t.Errorf("records %v", s.records)
		}
	})
}

func TestTenantThatHangsHurtsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad, s := newFakeGraph(week), newFakeGraph(week), newFakeStore()
		bad.answer(func(ctx context.Context, op graph.Operation, _ string) error {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
			}
			return &graph.Error{Operation: op, Err: context.DeadlineExceeded}
		})
		w := newWorld(t, good, s)
		desired := renewal.Desired{}
		for i, g := range []*fakeGraph{good, bad} {
			name := []string{"good", "bad"}[i]
			desired.Tenants = append(desired.Tenants, renewal.Tenant{Name: name, App: "hooks", Client: g, Scale: 1, QuotaShare: 0.9})
			for n := range 200 {
				one := wish(fmt.Sprintf("%s-%03d", name, n))
				one.Tenant = name
				desired.Wishes = append(desired.Wishes, one)
				// Both are known, so that nothing waits for a listing.
				s.records[graph.Key{Name: one.Name, Gen: "g"}] = graph.Record{Name: one.Name, Gen: "g", Tenant: name, Resource: one.Resource, State: graph.StatePending}
			}
		}
		if err := w.manager.SetDesired(desired); err != nil {
			t.Fatal(err)
		}
		w.lead()
		time.Sleep(30 * time.Second)
		if n := len(good.ids()); n != 200 {
			t.Errorf("%d of 200 live beside a tenant that hangs", n)
		}
		time.Sleep(time.Hour)
		calls := bad.count("create")
		if err := w.stop(graph.ErrLeaseLost); err != nil {
			t.Error(err)
		}
		if calls != 0 { // none ever got through the hook
			t.Errorf("%d creates in the tenant that hangs", calls)
		}
	})
}
