package renewal_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

func ofGen(gen string, wishes []graph.Wish) []graph.Wish {
	for i := range wishes {
		wishes[i].Gen = gen
	}
	return wishes
}

// holds checks how many are held and how many live.
func holds(t *testing.T, when string, g *fakeGraph, s *fakeStore, held, live int) {
	t.Helper()
	g.mu.Lock()
	alive := len(g.live)
	g.mu.Unlock()
	if n, _ := s.held(); n != held || alive != live {
		t.Errorf("%s: %d held and %d live, want %d and %d", when, n, alive, held, live)
	}
}

func ended(t *testing.T, w *world) {
	t.Helper()
	if err := w.stop(nil); err != nil {
		t.Error(err)
	}
}

// Ways that once led around the brake, or into a hold that nobody can end.
func TestBrakeHasNoWayAround(t *testing.T) {
	for name, play := range map[string]func(t *testing.T){
		"a process that starts anew":                  newProcess,
		"a reload that has nothing to do with it":     unrelatedReload,
		"calls under way at a reload":                 busyAtReload,
		"a start with a configuration that lost much": startWithMuch,
		"another gen after a purge":                   genAfterPurge,
		"a purge during a held replacement":           purgeOfReplaced,
		"the same, found by renewals":                 purgeFoundByRenewal,
		"a tenant that comes and goes":                tenantFlaps,
		"a pause that was approved":                   approvedPause,
		"a held tenant that goes":                     heldTenantGoes,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, play)
		})
	}
}

func newProcess(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wishesOf(40)...)
	w.lead()
	time.Sleep(time.Hour)
	w.want(wishesOf(30)...)
	time.Sleep(time.Minute)
	w.want(wishesOf(25)...)
	time.Sleep(time.Minute)
	holds(t, "before", g, s, 5, 30)
	ended(t, w)
	s.term++
	w = newWorld(t, g, s, wishesOf(25)...)
	led(t, w, time.Hour)
	holds(t, "after", g, s, 5, 30)
}

func unrelatedReload(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wishesOf(40)...)
	w.lead()
	time.Sleep(time.Hour)
	w.want(wishesOf(30)...)
	time.Sleep(time.Minute)
	w.want(wishesOf(20)...)
	time.Sleep(time.Hour)
	holds(t, "before", g, s, 10, 30)
	w.want(append(wishesOf(20), wish("new"))...)
	time.Sleep(time.Hour)
	holds(t, "after", g, s, 10, 31)
	ended(t, w)
}

func busyAtReload(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wishesOf(40)...)
	w.lead()
	time.Sleep(time.Hour)
	g.answer(func(_ context.Context, op graph.Operation, _ string) error {
		if op == graph.OperationRenew {
			time.Sleep(20 * time.Second)
		}
		return nil
	})
	var items []graph.LifecycleItem
	for i := 10; i < 40; i++ {
		r := s.record(t, fmt.Sprintf("w%03d", i), "g")
		items = append(items, graph.LifecycleItem{
			ID: r.Name, Name: r.Name, Gen: "g", SubscriptionID: r.ID, Event: "reauthorizationRequired", ReceivedAt: time.Now(),
		})
	}
	s.tell(items...)
	time.Sleep(5 * time.Second)
	w.want()
	time.Sleep(10 * time.Second)
	holds(t, "during the calls", g, s, 10, 40)
	time.Sleep(5 * time.Minute)
	holds(t, "after", g, s, 40, 40)
	ended(t, w)
}

func startWithMuch(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wishesOf(40)...)
	led(t, w, time.Hour)
	w.want(ofGen("h", wishesOf(31))...) // nine are to go, and 31 to be replaced
	s.term++
	led(t, w, time.Hour)
	holds(t, "after the start", g, s, 40, 40)
}

func genAfterPurge(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wishesOf(40)...)
	w.lead()
	time.Sleep(time.Hour)
	s.tellRemoved(g, 0, 40)
	time.Sleep(time.Minute)
	holds(t, "after the purge", g, s, 40, 0)
	w.want(ofGen("h", wishesOf(40))...)
	time.Sleep(time.Minute)
	holds(t, "after the reload", g, s, 40, 0)
	_, id := s.held()
	s.command(graph.CommandApprove, id)
	time.Sleep(time.Hour)
	holds(t, "approved", g, s, 0, 40)
	ended(t, w)
}

func purgeOfReplaced(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wishesOf(40)...)
	led(t, w, time.Hour)
	s.term++
	w.lead() // and has not listed
	time.Sleep(time.Hour)
	w.want(ofGen("h", wishesOf(40))...)
	time.Sleep(time.Minute)
	holds(t, "replaced", g, s, 40, 40)
	s.tellRemoved(g, 0, 40)
	time.Sleep(time.Minute)
	holds(t, "purged", g, s, 40, 0)
	_, id := s.held()
	s.command(graph.CommandApprove, id)
	time.Sleep(time.Hour)
	holds(t, "approved", g, s, 0, 40)
	ended(t, w)
}

func purgeFoundByRenewal(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wishesOf(40)...)
	w.lead()
	time.Sleep(time.Hour)
	w.want(ofGen("h", wishesOf(40))...)
	time.Sleep(time.Minute)
	g.mu.Lock()
	clear(g.live)
	g.mu.Unlock()
	time.Sleep(5 * 24 * time.Hour)
	holds(t, "purged", g, s, 40, 0)
	ended(t, w)
}

func tenantFlaps(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wishesOf(40)...)
	w.lead()
	time.Sleep(time.Hour)
	for _, left := range []int{30, 20, 10} {
		w.want(wishesOf(left)...)
		time.Sleep(10 * time.Second)
		if err := w.manager.SetDesired(renewal.Desired{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
	}
	w.want()
	time.Sleep(time.Minute)
	holds(t, "after", g, s, 30, 30)
	ended(t, w)
}

// What was approved to end is no licence to be made anew; and to end a pause is
// what somebody asked for, like a new name.
func approvedPause(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wishesOf(40)...)
	w.lead()
	time.Sleep(time.Hour)
	paused := wishesOf(40)
	for i := range paused {
		paused[i].Paused = true
	}
	w.want(paused...)
	time.Sleep(time.Minute)
	_, id := s.held()
	s.command(graph.CommandApprove, id)
	time.Sleep(time.Minute)
	holds(t, "paused", g, s, 0, 0)
	w.want(wishesOf(40)...)
	time.Sleep(time.Hour)
	holds(t, "not any more", g, s, 0, 40)
	w.want(paused...)
	time.Sleep(time.Hour)
	holds(t, "again", g, s, 40, 40)
	ended(t, w)
}

// heldTenantGoes takes a tenant out of the configuration whose changes are held:
// they are nobody's any more, and another tenant's can be approved, under the
// same leader and the next.
func heldTenantGoes(t *testing.T) {
	a, s := newFakeGraph(week), newFakeStore()
	b := newFakeGraph(week)
	w := newWorld(t, a, s)
	contoso := renewal.Tenant{Name: "contoso", App: "hooks", Client: a, Scale: 1, QuotaShare: 0.9}
	fabrikam := renewal.Tenant{Name: "fabrikam", App: "hooks", Client: b, Scale: 1, QuotaShare: 0.9}
	var others []graph.Wish
	for i := range 60 {
		other := wish(fmt.Sprintf("b%03d", i))
		other.Tenant = "fabrikam"
		others = append(others, other)
	}
	want := func(tenants []renewal.Tenant, wishes ...graph.Wish) {
		if err := w.manager.SetDesired(renewal.Desired{Tenants: tenants, Wishes: wishes}); err != nil {
			t.Fatal(err)
		}
	}
	want([]renewal.Tenant{contoso, fabrikam}, append(wishesOf(40), others...)...)
	w.lead()
	time.Sleep(time.Hour)
	want([]renewal.Tenant{contoso, fabrikam}, others...)
	time.Sleep(time.Minute)
	holds(t, "held", a, s, 40, 40)
	want([]renewal.Tenant{fabrikam}, others...)
	time.Sleep(time.Minute)
	holds(t, "gone", a, s, 0, 40)
	for left := 40; left >= 20; left -= 20 {
		want([]renewal.Tenant{fabrikam}, others[:left]...)
		time.Sleep(time.Minute)
		n, id := s.held()
		s.command(graph.CommandApprove, id)
		time.Sleep(time.Minute)
		if n != 20 {
			t.Errorf("%d were held", n)
		}
		holds(t, "the other tenant's after "+s.answers(), b, s, 0, left)
		ended(t, w)
		s.term++
		w.lead()
		time.Sleep(time.Hour)
	}
	// It comes back without its wishes: that is a mass change again.
	want([]renewal.Tenant{contoso, fabrikam}, others[:20]...)
	time.Sleep(time.Minute)
	holds(t, "back", a, s, 40, 40)
	ended(t, w)
}

// A tenant that has another name in the configuration is still the same one: its
// subscriptions are renewed, and none is made anew.
func TestTenantIsRenamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wishesOf(3)...)
		w.lead()
		time.Sleep(time.Hour)
		wishes := wishesOf(3)
		for i := range wishes {
			wishes[i].Tenant = "contoso-emea"
		}
		tenant := renewal.Tenant{Name: "contoso-emea", App: "hooks", Client: g, Scale: 1, QuotaShare: 0.9}
		if err := w.manager.SetDesired(renewal.Desired{Tenants: []renewal.Tenant{tenant}, Wishes: wishes}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * 24 * time.Hour)
		if g.count("create") != 3 || len(g.live) != 3 || g.count("renew") < 9 {
			t.Errorf("%d made, %d renewed, %d live", g.count("create"), g.count("renew"), len(g.live))
		}
		if r := s.record(t, "w001", "g"); r.Tenant != "contoso-emea" {
			t.Errorf("its record says %q", r.Tenant)
		}
		ended(t, w)
	})
}

// unsettled fails to store the result of a command once.
type unsettled struct {
	*fakeStore

	failed atomic.Bool
}

// SettleCommand fails the first time.
func (u *unsettled) SettleCommand(ctx context.Context, term int64, id string, state graph.CommandState, result string) error {
	if !u.failed.Swap(true) {
		return fmt.Errorf("settle: %w", graph.ErrStoreUnavailable)
	}
	return u.fakeStore.SettleCommand(ctx, term, id, state, result)
}

// An approval that was carried out is answered so, although that could not be
// stored at once.
func TestApprovalIsAnsweredAsItWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorldWith(t, g, s, func(c *renewal.Config) { c.Store = &unsettled{fakeStore: s} }, wishesOf(40)...)
		w.lead()
		time.Sleep(time.Hour)
		w.want(wishesOf(10)...)
		time.Sleep(time.Minute)
		_, id := s.held()
		s.command(graph.CommandApprove, id)
		time.Sleep(time.Minute)
		if got := s.answers(); got != "done: 30 changes released" {
			t.Errorf("answered %q", got)
		}
		holds(t, "after", g, s, 0, 10)
		ended(t, w)
	})
}
