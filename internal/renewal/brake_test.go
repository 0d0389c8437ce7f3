package renewal_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

func TestMassLimit(t *testing.T) {
	for have, want := range map[int]int{0: 10, 1: 10, 99: 10, 100: 10, 110: 11, 5000: 500} {
		if got := renewal.MassLimit(have, renewal.DefaultPolicy()); got != want {
			t.Errorf("%d of %d may change, want %d", got, have, want)
		}
	}
}

func TestMassive(t *testing.T) {
	lost := time.Now()
	for name, c := range map[string]struct {
		situation renewal.Situation
		verb      renewal.Verb
		replaces  bool
		want      bool
	}{
		"the end":                  {renewal.Situation{}, renewal.Delete, false, true},
		"the end of a former gen":  {renewal.Situation{Replaced: true}, renewal.Delete, false, false},
		"the end of a duplicate":   {renewal.Situation{Record: graph.Record{Gen: "g~id"}}, renewal.Delete, false, false},
		"a new one":                {renewal.Situation{}, renewal.Create, false, false},
		"in place of a former gen": {renewal.Situation{}, renewal.Create, true, true},
		"after it was gone":        {renewal.Situation{Record: graph.Record{LostAt: lost, LostCause: graph.GapRemoved}}, renewal.Create, false, true},
		"after it lapsed":          {renewal.Situation{Record: graph.Record{LostAt: lost, LostCause: graph.GapLapsed}}, renewal.Create, false, false},
		"a renewal":                {renewal.Situation{}, renewal.Renew, false, false},
	} {
		if got := renewal.Massive(c.situation, renewal.Action{Verb: c.verb}, c.replaces); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func wishesOf(n int) (list []graph.Wish) {
	for i := range n {
		list = append(list, wish(fmt.Sprintf("w%03d", i)))
	}
	return list
}

// held counts the records that wait for a person, and gives their id.
func (f *fakeStore) held() (n int, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []graph.Key
	for key, r := range f.records {
		if r.Held {
			keys = append(keys, key)
		}
	}
	return len(keys), graph.HoldID(keys)
}

// command asks the leader for something.
func (f *fakeStore) command(action, argument string) {
	f.mu.Lock()
	f.commands = append(f.commands, graph.Command{ID: rand.Text(), Action: action, Argument: argument, By: "ops"})
	f.mu.Unlock()
	f.tell()
}

func (f *fakeStore) answers() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.results, "; ")
}

// A configuration that lost most of its subscriptions ends none of them, for as
// long as nobody says so, over a change of leader. Renewals go on.
func TestMassDeletionIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wishesOf(40)...)
		led(t, w, time.Hour)
		w.want(wishesOf(16)...)
		log := &logBuffer{}
		w.log.set(log)
		led(t, w, 3*time.Hour)
		s.term++
		w.lead() // another leader
		time.Sleep(6 * 24 * time.Hour)
		if g.count("delete") != 0 || len(g.live) != 40 || g.count("renew") < 40 {
			t.Errorf("%d deleted, %d renewed, %d live", g.count("delete"), g.count("renew"), len(g.live))
		}
		n, id := s.held()
		if n != 24 || strings.Count(log.String(), "plan --approve") != 2 {
			t.Errorf("%d held, told:\n%s", n, log)
		}
		s.command(graph.CommandApprove, "something else")
		time.Sleep(time.Minute)
		if g.count("delete") != 0 || !strings.Contains(s.answers(), "conflict") {
			t.Errorf("%d deleted after %q", g.count("delete"), s.answers())
		}
		s.command(graph.CommandApprove, id)
		time.Sleep(time.Minute)
		if n, _ := s.held(); n != 0 || len(g.live) != 16 || !strings.Contains(s.answers(), "done: 24 changes released") {
			t.Errorf("%d held, %d live, %q", n, len(g.live), s.answers())
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

// What is held is within the limit by itself; only the leader that held it knows
// of what it had let pass before. It stays held all the same, also where the
// record tells of another trouble by then, or where a look at Graph comes first.
func TestHoldOutlivesItsLeader(t *testing.T) {
	for name, c := range map[string]struct {
		fewer        func(w *world, g *fakeGraph, s *fakeStore, from, to int) // takes those of the 40
		after        int                                                      // alive at Graph
		atOnce       bool
		fault, blind bool // renewals fail, or listings
	}{
		"deletion": {fewer: func(w *world, _ *fakeGraph, _ *fakeStore, from, _ int) { w.want(wishesOf(from)...) }, after: 30},
		"deletion while renewals fail": {
			fewer: func(w *world, _ *fakeGraph, _ *fakeStore, from, _ int) { w.want(wishesOf(from)...) }, after: 30, fault: true,
		},
		"recreation": {fewer: func(_ *world, g *fakeGraph, s *fakeStore, from, to int) { s.tellRemoved(g, from, to) }, after: 35},
		"recreation before a listing": {
			fewer: func(_ *world, g *fakeGraph, s *fakeStore, from, to int) { s.tellRemoved(g, from, to) }, after: 25, atOnce: true, blind: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := newFakeGraph(week), newFakeStore()
				w := newWorld(t, g, s, wishesOf(40)...)
				led(t, w, time.Hour)
				s.term++
				w.lead() // and has not listed the tenant
				time.Sleep(time.Hour)
				want := 5
				if c.atOnce {
					want = 15
					c.fewer(w, g, s, 25, 40)
				} else {
					c.fewer(w, g, s, 30, 40)
					time.Sleep(time.Minute)
					c.fewer(w, g, s, 25, 30)
				}
				time.Sleep(time.Minute)
				if n, _ := s.held(); n != want || len(g.live) != c.after {
					t.Fatalf("%d held, %d live", n, len(g.live))
				}
				if c.fault {
					g.answer(refusing(graph.OperationRenew, answered(graph.OperationRenew, http.StatusForbidden, "x", "no"), always))
					time.Sleep(5 * 24 * time.Hour)
				}
				if c.blind {
					g.answer(refusing(graph.OperationList, answered(graph.OperationList, http.StatusServiceUnavailable, "x", "busy"), always))
				}
				for range 2 {
					if err := w.stop(nil); err != nil {
						t.Error(err)
					}
					s.term++
					w.lead()
					time.Sleep(time.Hour)
				}
				n, id := s.held()
				if n != want || len(g.live) != c.after {
					t.Errorf("%d held, %d live under another leader", n, len(g.live))
				}
				s.command(graph.CommandApprove, id)
				time.Sleep(time.Minute)
				if n, _ := s.held(); n != 0 || !strings.Contains(s.answers(), fmt.Sprintf("done: %d changes released", want)) {
					t.Errorf("%d held after %q", n, s.answers())
				}
				if err := w.stop(nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A hold that nobody looks at holds nothing that comes long after it.
func TestOldHoldHoldsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wishesOf(40)...)
		w.lead()
		time.Sleep(time.Hour)
		w.want(wishesOf(20)...)
		time.Sleep(time.Minute)
		s.tellRemoved(g, 0, 1) // this may be part of it
		time.Sleep(time.Minute)
		if n, _ := s.held(); n != 21 || len(g.live) != 39 {
			t.Errorf("%d held, %d live", n, len(g.live))
		}
		time.Sleep(time.Hour)
		s.tellRemoved(g, 1, 2)
		time.Sleep(time.Minute)
		if n, _ := s.held(); n != 21 || len(g.live) != 39 {
			t.Errorf("an hour later: %d held, %d live", n, len(g.live))
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

// A reload that leaves few of what is held lets them pass with what comes new.
func TestReloadReleasesAFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wishesOf(40)...)
		w.lead()
		time.Sleep(time.Hour)
		w.want(wishesOf(20)...)
		time.Sleep(time.Minute)
		w.want(wishesOf(36)[2:]...) // four of those that are held, and two others
		time.Sleep(time.Minute)
		if n, _ := s.held(); n != 0 || len(g.live) != 34 {
			t.Errorf("%d held, %d live", n, len(g.live))
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

// A mistake that is taken back leaves nothing behind.
func TestHeldDeletionIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wishesOf(40)...)
		w.lead()
		time.Sleep(time.Hour)
		w.want()
		time.Sleep(time.Hour)
		if n, _ := s.held(); n != 40 {
			t.Fatalf("%d held", n)
		}
		w.want(wishesOf(35)...) // five are meant
		time.Sleep(time.Minute)
		if n, _ := s.held(); n != 0 || len(g.live) != 35 || g.count("create") != 40 {
			t.Errorf("%d held, %d live, %d created", n, len(g.live), g.count("create"))
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

// What a person has approved needs no second approval because Graph was busy.
func TestApprovalOutlivesRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wishesOf(40)...)
		w.lead()
		time.Sleep(time.Hour)
		w.want()
		time.Sleep(time.Minute)
		g.answer(refusing(graph.OperationDelete, answered(graph.OperationDelete, http.StatusServiceUnavailable, "x", "busy"), first(60)))
		_, id := s.held()
		s.command(graph.CommandApprove, id)
		time.Sleep(time.Hour)
		if n, _ := s.held(); n != 0 || len(g.live) != 0 {
			t.Errorf("%d held, %d live", n, len(g.live))
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

// What a person has approved once is no licence for later.
func TestApprovalHoldsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wishesOf(40)...)
		w.lead()
		time.Sleep(time.Hour)
		var refused atomic.Int64
		g.answer(refusing(graph.OperationDelete, answered(graph.OperationDelete, http.StatusServiceUnavailable, "x", "busy"), func() bool {
			refused.Add(1)
			return true
		}))
		w.want()
		time.Sleep(time.Minute)
		_, id := s.held()
		s.command(graph.CommandApprove, id)
		time.Sleep(time.Minute)
		w.want(wishesOf(40)...) // taken back before Graph took any
		time.Sleep(time.Hour)
		g.answer(func(context.Context, graph.Operation, string) error { return nil })
		w.want()
		time.Sleep(time.Hour)
		if n, _ := s.held(); n != 40 || refused.Load() == 0 || g.count("delete") != 0 || len(g.live) != 40 {
			t.Errorf("%d held, %d live", n, len(g.live))
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

// Replacements are held too, unless a person knows of them; the former gens
// live on.
func TestMassReplacementIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, accepted := range []bool{false, true} {
			g, s := newFakeGraph(week), newFakeStore()
			led(t, newWorld(t, g, s, wishesOf(40)...), time.Hour)
			changed := wishesOf(40)
			for i := range changed {
				changed[i].Gen = "h"
			}
			led(t, newWorldWith(t, g, s, func(c *renewal.Config) { c.AcceptReplacements = accepted }, changed...), time.Hour)
			n, _ := s.held()
			if want := map[bool]int{false: 40, true: 80}[accepted]; g.count("create") != want || (n == 40) == accepted || len(g.live) != 40 {
				t.Errorf("accepted %v: %d held, %d created, %d live", accepted, n, g.count("create"), len(g.live))
			}
		}
	})
}

// Many that are gone at Graph all at once are made anew when a person says so.
// What is found out bit by bit is made anew as it is found.
func TestMassRecreationIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, told := range []bool{true, false} {
			g, s := newFakeGraph(week), newFakeStore()
			w := newWorld(t, g, s, wishesOf(200)...)
			w.lead()
			time.Sleep(time.Hour)
			if !told {
				g.mu.Lock()
				clear(g.live)
				g.mu.Unlock()
			} else {
				s.tellRemoved(g, 0, 200)
			}
			time.Sleep(6 * 24 * time.Hour)
			n, id := s.held()
			if made := g.count("create") - 200; told && (made != 0 || n != 200) || !told && (made != 200 || n != 0) {
				t.Errorf("told %v: %d made anew, %d held", told, made, n)
			}
			if told {
				s.command(graph.CommandApprove, id)
				time.Sleep(time.Hour)
			}
			if n, _ := s.held(); n != 0 || len(g.live) != 200 {
				t.Errorf("told %v: %d held, %d live", told, n, len(g.live))
			}
			if err := w.stop(nil); err != nil {
				t.Error(err)
			}
		}
	})
}

// tellRemoved has Graph remove some subscriptions of wishesOf, and say so.
func (f *fakeStore) tellRemoved(g *fakeGraph, from, to int) {
	var items []graph.LifecycleItem
	f.mu.Lock()
	for i := from; i < to; i++ {
		key := graph.Key{Name: fmt.Sprintf("w%03d", i), Gen: "g"}
		r := f.records[key]
		g.mu.Lock()
		delete(g.live, r.ID)
		g.mu.Unlock()
		items = append(items, graph.LifecycleItem{
			ID: key.Name, Name: key.Name, Gen: key.Gen, SubscriptionID: r.ID, Event: "subscriptionRemoved", ReceivedAt: time.Now(),
		})
	}
	f.mu.Unlock()
	f.tell(items...)
}
