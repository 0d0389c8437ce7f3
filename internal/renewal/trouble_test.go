package renewal_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// slowly holds one operation back.
func slowly(op graph.Operation, by time.Duration) func(context.Context, graph.Operation, string) error {
	return func(_ context.Context, called graph.Operation, _ string) error {
		if called == op {
			time.Sleep(by)
		}
		return nil
	}
}

// kinds counts the events by type.
func (f *fakeStore) kinds() map[graph.EventType]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	kinds := map[graph.EventType]int{}
	for _, event := range f.events {
		kinds[event.Type]++
	}
	return kinds
}

func TestWishThatComesBackDuringItsDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"), wish("b"))
		w.lead()
		time.Sleep(time.Hour)
		g.answer(slowly(graph.OperationDelete, 5*time.Second))
		w.want(wish("b"))
		time.Sleep(2 * time.Second)
		w.want(wish("a"), wish("b"))
		time.Sleep(3 * week)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if ids := g.ids(); len(ids) != 2 || s.record(t, "a", "g").State != graph.StateActive {
			t.Errorf("live %v", ids)
		}
	})
}

func TestGenThatComesBackDuringItsDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		g.answer(slowly(graph.OperationDelete, 5*time.Second))
		newer := wish("a")
		newer.Gen = "h"
		w.want(newer)
		time.Sleep(2 * time.Second)
		w.want(wish("a"))
		time.Sleep(3 * week)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if ids := g.ids(); len(ids) != 1 || s.record(t, "a", "g").State != graph.StateActive || len(s.records) != 1 {
			t.Errorf("live %v, records %v", ids, s.records)
		}
	})
}

func TestLifecycleReactionThatIsNotStoredIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(24 * time.Hour)
		g.remove("s1")
		s.mu.Lock()
		s.failSaves = 1
		s.mu.Unlock()
		s.tell(graph.LifecycleItem{ID: "1", Name: "a", Gen: "g", SubscriptionID: "s1", Event: "subscriptionRemoved", ReceivedAt: time.Now()})
		// A process that ends now must find the item again.
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		s.mu.Lock()
		settled := len(s.settled)
		s.mu.Unlock()
		if settled != 0 {
			t.Error("the item was let go before its reaction was stored")
		}
		time.Sleep(time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		kinds := s.kinds()
		if kinds[graph.EventGapOpened] != 1 || kinds[graph.EventGapClosed] != 1 || len(s.settled) != 1 || len(g.ids()) != 1 {
			t.Errorf("events %v, settled %v, live %v", kinds, s.settled, g.ids())
		}
	})
}

func TestGapOfWhatIsNoLongerWishedForIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"), wish("b"))
		w.lead()
		time.Sleep(time.Hour)
		paused := wish("a")
		paused.Paused = true
		w.want(paused, wish("b"))
		time.Sleep(time.Hour)
		w.want(wish("b"))
		time.Sleep(time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if kinds := s.kinds(); kinds[graph.EventGapOpened] != 1 || kinds[graph.EventGapClosed] != 1 {
			t.Errorf("events %v", kinds)
		}
	})
}

func TestUnwishedAndUnsureIsNotListedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		g.answer(refusing(graph.OperationCreate, answered(graph.OperationCreate, 503, "ServiceUnavailable", ""), always))
		w := newWorld(t, g, s, wish("a"), wish("b"))
		w.lead()
		time.Sleep(3 * time.Hour)
		before := g.count("list")
		w.want()
		time.Sleep(time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("list") - before; n > 3 || len(s.records) != 0 {
			t.Errorf("%d listings, records %v", n, s.records)
		}
	})
}

func TestPausedWhileItsCreateIsUnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		g.after = func(op graph.Operation) error {
			if op == graph.OperationCreate {
				return unanswered(op)
			}
			return nil
		}
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Second)
		paused := wish("a")
		paused.Paused = true
		w.want(paused)
		time.Sleep(24 * time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if ids := g.ids(); len(ids) != 0 {
			t.Errorf("live although it is paused: %v", ids)
		}
	})
}

func TestGrantThatHasPassedIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGraph(-time.Hour)
		w := newWorld(t, g, newFakeStore(), wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if n := g.count("create"); n < 2 || n > 30 {
			t.Errorf("%d creates in an hour", n)
		}
	})
}

func TestWrongDateIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s)
		w.wantAt(-26*365*24*time.Hour, wish("a"))
		led(t, w, 4*week)
		if n := g.count("renew"); n < 4 || g.count("create") != 1 {
			t.Errorf("%d renewals, calls %v", n, g.calls)
		}
	})
}

func TestRecordOfAnUnknownTenantEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		now := time.Now()
		s.records[graph.Key{Name: "old", Gen: "g"}] = graph.Record{
			Name: "old", Gen: "g", Tenant: "former", ID: "x", State: graph.StateActive, ExpiresAt: now.Add(24 * time.Hour), RenewAt: now,
		}
		w := newWorld(t, g, s, wish("a"))
		log := &logBuffer{}
		w.log.set(log)
		led(t, w, 2*24*time.Hour)
		if _, still := s.records[graph.Key{Name: "old", Gen: "g"}]; still || log.String() == "" {
			t.Errorf("records %v; log %s", s.records, log)
		}
	})
}

func TestTenantThatHangsLetsNoOtherLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = 70 * time.Minute
		good, bad, s := newFakeGraph(life), newFakeGraph(life), newFakeStore()
		w := newWorld(t, bad, s)
		desired := renewal.Desired{Tenants: []renewal.Tenant{
			{Name: "bad", App: "one", Client: bad, Scale: 1, QuotaShare: .9},
			{Name: "good", App: "two", Client: good, Scale: 1, QuotaShare: .9},
		}}
		for i := range 600 {
			one := wish(fmt.Sprintf("w%03d", i))
			one.Tenant = desired.Tenants[i%2].Name
			desired.Wishes = append(desired.Wishes, one)
		}
		if err := w.manager.SetDesired(desired); err != nil {
			t.Fatal(err)
		}
		w.lead()
		time.Sleep(2 * time.Hour)
		bad.answer(func(ctx context.Context, op graph.Operation, _ string) error {
			select {
			case <-time.After(30 * time.Second):
			case <-ctx.Done():
			}
			return unanswered(op)
		})
		time.Sleep(6 * time.Hour)
		if err := w.stop(graph.ErrLeaseLost); err != nil {
			t.Error(err)
		}
		if n := good.count("create"); n != 300 || len(good.ids()) != 300 {
			t.Errorf("%d creates in the tenant that answers", n)
		}
	})
}

func TestMassOfExpiredRecordsIsTakenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		now := time.Now()
		var wishes []graph.Wish
		for i := range 2000 {
			one := wish(fmt.Sprintf("w%04d", i))
			wishes = append(wishes, one)
			s.records[graph.Key{Name: one.Name, Gen: "g"}] = graph.Record{
				Name: one.Name, Gen: "g", Tenant: "contoso", Resource: one.Resource, ID: fmt.Sprint("x", i), State: graph.StateActive,
				GrantedAt: now.Add(-8 * 24 * time.Hour), ExpiresAt: now.Add(-24 * time.Hour), RenewAt: now.Add(-3 * 24 * time.Hour),
			}
		}
		w := newWorld(t, g, s, wishes...)
		led(t, w, 10*time.Minute)
		if len(g.ids()) != 2000 || s.most > 70 {
			t.Errorf("%d live, %d writes to the store at once", len(g.ids()), s.most)
		}
		if kinds := s.kinds(); kinds[graph.EventGapOpened] != 2000 || kinds[graph.EventGapClosed] != 2000 {
			t.Errorf("events %v", kinds)
		}
	})
}

// TestOlderStorePutBack restores a copy of the store from before one
// subscription was made anew and another was added.
func TestOlderStorePutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"), wish("b"))
		led(t, w, time.Hour)
		s.mu.Lock()
		copied := maps.Clone(s.records)
		s.mu.Unlock()

		w = newWorld(t, g, s, wish("a"), wish("b"), wish("c"))
		w.lead()
		time.Sleep(time.Hour)
		g.remove("s1")
		time.Sleep(6 * 24 * time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		before := g.ids()
		s.mu.Lock()
		s.records, s.term, s.gaps, s.events = copied, 1, nil, nil
		s.mu.Unlock()

		w = newWorld(t, g, s, wish("a"), wish("b"), wish("c"))
		led(t, w, 3*week)
		if after := g.ids(); !slices.Equal(before, after) || len(after) != 3 {
			t.Errorf("live were %v and are %v", before, after)
		}
		if n := g.count("create"); n != 4 {
			t.Errorf("%d creates, want 4", n)
		}
		if len(s.gaps) != 1 || s.gaps[0].To.IsZero() {
			t.Errorf("gaps %+v", s.gaps)
		}
	})
}
