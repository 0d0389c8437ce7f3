package renewal_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

const week = 7 * 24 * time.Hour

// unanswered is a call that brought nothing back.
func unanswered(op graph.Operation) error {
	return &graph.Error{Operation: op, Err: errors.New("connection reset")}
}

func TestKeepsAliveForAMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFakeGraph(week), newFakeStore(), wish("a"), wish("b"))
		w.lead()
		synctest.Wait()
		time.Sleep(30 * 24 * time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if ids := w.graph.ids(); len(ids) != 2 || ids[0] != "s1" || ids[1] != "s2" {
			t.Errorf("live are %v; none may have lapsed or been made anew", ids)
		}
		if n := w.graph.count("renew"); n < 10 || n > 16 {
			t.Errorf("%d renewals of two subscriptions of a week in 30 days", n)
		}
	})
}

func TestGoneIsRecreatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFakeGraph(week), newFakeStore(), wish("a"))
		w.lead()
		time.Sleep(24 * time.Hour)
		w.graph.remove("s1")
		time.Sleep(6 * 24 * time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if creates, patches := w.graph.count("create"), w.graph.count("renew s1"); creates != 2 || patches != 1 {
			t.Errorf("%d creates and %d renewals of the lost one, want 2 and 1", creates, patches)
		}
		if len(w.store.gaps) != 1 || w.store.gaps[0].Cause != graph.GapRecreated || !w.store.gaps[0].From.Before(w.store.gaps[0].To) {
			t.Errorf("gaps %+v", w.store.gaps)
		}
		if r := w.store.record(t, "a", "g"); r.ID != "s2" || r.State != graph.StateActive {
			t.Errorf("record %+v", r)
		}
	})
}

func TestGoneWhoseCreateFailsIsNeverPatchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGraph(week)
		w := newWorld(t, g, newFakeStore(), wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		g.remove("s1")
		g.answer(func(_ context.Context, op graph.Operation, _ string) error {
			if op == graph.OperationCreate {
				return answered(op, 503, "ServiceUnavailable", "")
			}
			return nil
		})
		time.Sleep(6 * 24 * time.Hour)
		g.answer(nil)
		time.Sleep(time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("renew s1"); n != 1 {
			t.Errorf("%d renewals of what is gone", n)
		}
		if ids := g.ids(); len(ids) != 1 || ids[0] != "s2" {
			t.Errorf("live are %v", ids)
		}
	})
}

func TestAnswerThatNeverCameIsFoundByListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGraph(week)
		lose := true
		g.after = func(op graph.Operation) error {
			if op == graph.OperationCreate && lose {
				lose = false
				return unanswered(op)
			}
			return nil
		}
		w := newWorld(t, g, newFakeStore(), wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("create"); n != 1 {
			t.Errorf("%d creates", n)
		}
		if r := w.store.record(t, "a", "g"); r.ID != "s1" || r.Ambiguous {
			t.Errorf("record %+v", r)
		}
	})
}

func TestKilledBetweenCreateAndStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		// The create takes effect, and then the store is gone for good: as if
		// the process had been killed before it could write.
		g.after = func(op graph.Operation) error {
			if op == graph.OperationCreate {
				s.setAway(true)
			}
			return nil
		}
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(10 * time.Second)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		s.setAway(false)
		if r := s.record(t, "a", "g"); r.ID != "" || !r.Ambiguous {
			t.Fatalf("the create was not announced to the store: %+v", r)
		}
		g.after = func(graph.Operation) error { return nil }
		next := newWorld(t, g, s, wish("a"))
		next.lead()
		time.Sleep(time.Hour)
		if err := next.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("create"); n != 1 {
			t.Errorf("%d creates", n)
		}
		if r := s.record(t, "a", "g"); r.ID != "s1" {
			t.Errorf("record %+v", r)
		}
	})
}

func TestListingThatFailsCreatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGraph(week)
		g.answer(func(_ context.Context, op graph.Operation, _ string) error {
			if op == graph.OperationList {
				return answered(op, 500, "UnknownError", "")
			}
			return nil
		})
		w := newWorld(t, g, newFakeStore(), wish("a"))
		w.lead()
		time.Sleep(24 * time.Hour)
		if n := g.count("create"); n != 0 {
			t.Errorf("%d creates from an inventory that was never seen whole", n)
		}
		g.answer(nil)
		time.Sleep(time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("create"); n != 1 {
			t.Errorf("%d creates once the listing works", n)
		}
	})
}

func TestFreshStoreAdoptsWhatIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGraph(week)
		first := newWorld(t, g, newFakeStore(), wish("a"), wish("b"))
		first.lead()
		time.Sleep(time.Hour)
		if err := first.stop(nil); err != nil {
			t.Error(err)
		}
		g.live["foreign"] = graph.Subscription{ID: "foreign", Resource: "users/u/messages", NotificationURL: "https://theirs/a/g", ExpiresAt: time.Now().Add(week)}
		// b is wished for no more, and a has a new gen.
		newer := wish("a")
		newer.Gen = "h"
		second := newWorld(t, g, newFakeStore(), newer)
		second.lead()
		time.Sleep(time.Hour)
		if err := second.stop(nil); err != nil {
			t.Error(err)
		}
		ids := g.ids()
		if len(ids) != 2 || ids[0] != "foreign" || ids[1] != "s3" {
			t.Errorf("live are %v, want the foreign one and the new one", ids)
		}
		create, remove := -1, -1
		for i, call := range g.calls {
			switch call {
			case "create":
				create = i
			case "delete s1", "delete s2":
				remove = i
			}
		}
		if create > remove {
			t.Error("the older one was deleted before its replacement lived")
		}
	})
}

func TestStoreAwayRenewsFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		s.setAway(true)
		w.want(wish("b")) // a goes, b comes, but not now
		time.Sleep(3 * week)
		if n := g.count("renew s1"); n < 3 {
			t.Errorf("%d renewals in three weeks", n)
		}
		if g.count("create") != 1 || g.count("delete") != 0 {
			t.Errorf("calls %v", g.calls)
		}
		s.setAway(false)
		time.Sleep(time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if ids := g.ids(); len(ids) != 1 || ids[0] != "s2" {
			t.Errorf("live are %v", ids)
		}
		if r := s.record(t, "b", "g"); r.ID != "s2" {
			t.Errorf("record %+v", r)
		}
		if _, still := s.records[graph.Key{Name: "a", Gen: "g"}]; still {
			t.Error("the record of what was deleted is still there")
		}
	})
}

func TestStoreThatComesBackGetsWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		before := s.record(t, "a", "g")
		s.setAway(true)
		time.Sleep(week)
		s.setAway(false)
		time.Sleep(time.Minute)
		if r := s.record(t, "a", "g"); !r.ExpiresAt.After(before.ExpiresAt) {
			t.Errorf("record %+v", r)
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestStoreAwayBeforeTheFirstCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.prove = func(context.Context) error {
			s.setAway(true)
			return nil
		}
		w.lead()
		time.Sleep(time.Hour)
		if n := g.count("create"); n != 0 {
			t.Errorf("%d creates that the store knows nothing of", n)
		}
		s.setAway(false)
		time.Sleep(time.Minute)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("create"); n != 1 {
			t.Errorf("%d creates once the store is back", n)
		}
	})
}

func TestNewerTermEndsThisOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		s.mu.Lock()
		s.term++
		s.mu.Unlock()
		if err := <-w.done; !errors.Is(err, graph.ErrTermLost) {
			t.Errorf("Run ended with %v", err)
		}
		if n := g.count("renew"); n != 1 {
			t.Errorf("%d renewals", n)
		}
	})
}

func TestStopLetsACallFinish(t *testing.T) {
	for name, test := range map[string]struct {
		takes time.Duration
		cause error
		ends  time.Duration
		known bool
	}{
		"within the grace time": {time.Second, nil, time.Second, true},
		"beyond it":             {time.Minute, nil, 2 * time.Second, false},
		"lease lost":            {time.Second, graph.ErrLeaseLost, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := newFakeGraph(week), newFakeStore()
				began := make(chan struct{})
				g.answer(func(ctx context.Context, op graph.Operation, _ string) error {
					if op != graph.OperationCreate {
						return nil
					}
					close(began)
					select {
					case <-ctx.Done():
						return &graph.Error{Operation: op, Err: context.Cause(ctx)}
					case <-time.After(test.takes):
						return nil
					}
				})
				w := newWorld(t, g, s, wish("a"))
				w.lead()
				<-began
				stopped := time.Now()
				if err := w.stop(test.cause); err != nil {
					t.Error(err)
				}
				if took := time.Since(stopped); took < test.ends || took > test.ends+10*time.Millisecond {
					t.Errorf("stopping took %v, want %v", took, test.ends)
				}
				if r := s.record(t, "a", "g"); (r.ID != "") != test.known || r.Ambiguous == test.known {
					t.Errorf("record %+v", r)
				}
			})
		})
	}
}

func TestThrottledBudgetPausesAndSoonestGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		now := time.Now()
		var wishes []graph.Wish
		for i := range 300 {
			w := wish(fmt.Sprintf("w%03d", i))
			wishes = append(wishes, w)
			id := fmt.Sprintf("id%03d", i)
			// The last of the list expires first.
			expires := now.Add(2*time.Hour - time.Duration(i)*10*time.Second)
			s.records[graph.Key{Name: w.Name, Gen: "g"}] = graph.Record{
				Name: w.Name, Gen: "g", Tenant: "contoso", Resource: w.Resource, ID: id, State: graph.StateActive,
				CreatedAt: now.Add(-time.Hour), GrantedAt: now.Add(-time.Hour), RenewAt: now, ExpiresAt: expires,
			}
			g.live[id] = graph.Subscription{ID: id, NotificationURL: "https://our/" + w.Name + "/g", ExpiresAt: expires}
		}
		var throttled atomic.Bool
		g.answer(func(_ context.Context, op graph.Operation, _ string) error {
			if op == graph.OperationRenew && throttled.CompareAndSwap(false, true) {
				return &graph.Error{Operation: op, Status: 429, Code: "TooManyRequests", Enveloped: true, RetryAfter: 2 * time.Minute}
			}
			return nil
		})
		w := newWorld(t, g, s, wishes...)
		w.lead()
		time.Sleep(time.Minute)
		// What was under way when the answer came may have gone out.
		if n := g.count("renew"); n > 16 {
			t.Errorf("%d renewals while the budget is paused", n)
		}
		time.Sleep(4 * time.Minute)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("renew"); n != 300 {
			t.Errorf("%d renewals, want 300", n)
		}
		if g.count("create") != 0 {
			t.Error("something was created")
		}
		var last string
		inversions := 0
		for _, call := range g.calls {
			if last != "" && call > last {
				inversions++
			}
			last = call
		}
		// Sixteen calls run side by side, so neighbours may swap.
		if inversions > 100 {
			t.Errorf("%d of 300 renewals came out of the order of their expiry", inversions)
		}
	})
}

func TestLimitThatGraphNamesIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		var refused atomic.Bool
		w := newWorld(t, g, s, wish("a"))
		g.answer(func(_ context.Context, op graph.Operation, _ string) error {
			if op == graph.OperationCreate && refused.CompareAndSwap(false, true) {
				return answered(op, 400, "ExtensionError", "Subscription expiration can only be 4230 minutes in the future.")
			}
			return nil
		})
		w.lead()
		time.Sleep(time.Minute)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		r := s.record(t, "a", "g")
		if life := r.ExpiresAt.Sub(r.GrantedAt); life != 4230*time.Minute-5*time.Minute {
			t.Errorf("asked for %v", life)
		}
		if len(s.limits) != 1 || s.limits[0].Tenant != "contoso" || s.limits[0].Type != "message" || s.limits[0].Lifetime != 4230*time.Minute {
			t.Errorf("limits %v", s.limits)
		}
	})
}

// A limit holds for the tenant in which Graph named it, over restarts, until
// it is so old that Graph may have raised it.
func TestLimitIsOfOneTenantAndForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		s.limits = []graph.LearnedLimit{{Tenant: "contoso", Type: "message", Lifetime: 24 * time.Hour, LearnedAt: time.Now()}}
		other := wish("b")
		other.Tenant = "fabrikam"
		lives := func(name string, want time.Duration) {
			t.Helper()
			r := s.record(t, name, "g")
			if life := r.ExpiresAt.Sub(r.GrantedAt); life != want-5*time.Minute {
				t.Errorf("%s: asked for %v, want %v", name, life, want-5*time.Minute)
			}
		}
		w := newWorld(t, g, s)
		err := w.manager.SetDesired(renewal.Desired{
			Tenants: []renewal.Tenant{
				{Name: "contoso", App: "hooks", Client: g, Scale: 1, QuotaShare: 0.9},
				{Name: "fabrikam", App: "hooks", Client: g, Scale: 1, QuotaShare: 0.9},
			},
			Wishes: []graph.Wish{wish("a"), other},
		})
		if err != nil {
			t.Fatal(err)
		}
		led(t, w, 29*24*time.Hour)
		lives("a", 24*time.Hour)
		lives("b", week)
		led(t, w, 2*24*time.Hour)
		lives("a", week)
	})
}

// A limit that has become old costs one refused call where it still holds, and
// nothing lapses.
func TestLimitThatStillHoldsIsLearnedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 48 * time.Hour
		g, s := newFakeGraph(most), newFakeStore()
		var refused atomic.Int64
		g.judge = func(op graph.Operation, asked time.Duration) error {
			if asked <= most {
				return nil
			}
			refused.Add(1)
			return answered(op, 400, "ExtensionError", "Subscription expiration can only be 2880 minutes in the future.")
		}
		w := newWorld(t, g, s, wish("a"))
		led(t, w, 75*24*time.Hour)
		if n := refused.Load(); n != 3 || len(s.limits) != 3 {
			t.Errorf("%d refused in 75 days, learned %v; want one for each 30 days begun", n, s.limits)
		}
		if ids := g.ids(); len(ids) != 1 || ids[0] != "s1" {
			t.Errorf("live %v", ids)
		}
		for _, limit := range s.limits {
			if limit.Lifetime != most {
				t.Errorf("learned %+v", limit)
			}
		}
	})
}

func TestTenantThatIsNotConfiguredIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		if err := w.manager.SetDesired(renewal.Desired{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if calls := g.count("list") + g.count("create") + g.count("delete"); calls != 2 || len(g.ids()) != 1 {
			t.Errorf("%d calls, want one list and one create", calls)
		}
		w.want(wish("a"))
		time.Sleep(2 * week)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if g.count("create") != 1 || g.count("renew s1") < 2 {
			t.Errorf("calls %v", g.calls)
		}
	})
}

func TestLifecycleEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"), wish("b"))
		w.lead()
		time.Sleep(time.Hour)
		a, b := s.record(t, "a", "g"), s.record(t, "b", "g")
		item := func(id string, r graph.Record, event string) graph.LifecycleItem {
			return graph.LifecycleItem{ID: id, Name: r.Name, Gen: r.Gen, SubscriptionID: r.ID, Event: event, ReceivedAt: time.Now()}
		}
		s.tell(item("1", a, "reauthorizationRequired"), item("2", a, "reauthorizationRequired"),
			item("3", a, "reauthorizationRequired"), item("4", b, "reauthorizationRequired"), item("5", a, "somethingNew"))
		time.Sleep(time.Minute)
		s.tell(item("6", a, "reauthorizationRequired"))
		time.Sleep(time.Minute)
		if g.count("renew "+a.ID) != 1 || g.count("renew "+b.ID) != 1 {
			t.Errorf("calls %v", g.calls)
		}
		g.remove(a.ID)
		s.tell(item("7", a, "subscriptionRemoved"), item("8", a, "subscriptionRemoved"))
		time.Sleep(time.Minute)
		s.tell(item("9", a, "subscriptionRemoved")) // late, for what is no longer current
		time.Sleep(time.Minute)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("create"); n != 3 {
			t.Errorf("%d creates, want 3", n)
		}
		if len(s.gaps) != 1 || s.gaps[0].Cause != graph.GapRemoved {
			t.Errorf("gaps %+v", s.gaps)
		}
		if len(s.settled) != 9 || len(s.lifecycle) != 0 {
			t.Errorf("settled %v, left %v", s.settled, s.lifecycle)
		}
	})
}

func TestNothingIsCreatedBeforeWeCanBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGraph(week)
		var reachable atomic.Bool
		w := newWorld(t, g, newFakeStore(), wish("a"))
		w.prove = func(context.Context) error {
			if reachable.Load() {
				return nil
			}
			return errors.New("connection refused")
		}
		w.lead()
		time.Sleep(time.Minute)
		if n := g.count("create"); n != 0 {
			t.Errorf("%d creates before the listener was reached", n)
		}
		reachable.Store(true)
		time.Sleep(time.Minute)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("create"); n != 1 {
			t.Errorf("%d creates once it was", n)
		}
	})
}

func TestClocksThatDiffer(t *testing.T) {
	for _, skew := range []time.Duration{-10 * time.Minute, -4 * time.Minute, 3 * time.Second, 4 * time.Minute, 10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := newFakeGraph(week), newFakeStore()
				g.ahead = skew
				w := newWorld(t, g, s)
				w.wantAt(skew, wish("a"))
				w.lead()
				time.Sleep(4 * week)
				if err := w.stop(nil); err != nil {
					t.Error(err)
				}
				if g.count("create") != 1 || g.tooLong > 0 {
					t.Errorf("%d creates, %d asked for more than the maximum", g.count("create"), g.tooLong)
				}
				r := s.record(t, "a", "g")
				if life := r.ExpiresAt.Sub(r.GrantedAt); life < week-6*time.Minute-3*time.Second || life > week {
					t.Errorf("a life of a week is taken for %v", life)
				}
			})
		})
	}
}
