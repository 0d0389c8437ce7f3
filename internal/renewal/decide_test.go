package renewal_test

import (
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

func TestDecideOne(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	in := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	wish := &graph.Wish{Name: "a", Gen: "g"}
	paused := &graph.Wish{Name: "a", Gen: "g", Paused: true}
	none := graph.Record{Name: "a", Gen: "g", State: graph.StatePending}
	with := func(r graph.Record, change func(*graph.Record)) graph.Record {
		change(&r)
		return r
	}
	live := with(none, func(r *graph.Record) {
		r.ID, r.State, r.GrantedAt, r.RenewAt, r.ExpiresAt = "s1", graph.StateActive, in(-10), in(30), in(50)
	})
	unsure := with(none, func(r *graph.Record) { r.Ambiguous, r.NextAt = true, in(-1) })
	listed := func(at time.Time, found ...graph.Subscription) *renewal.Listing {
		l := &renewal.Listing{At: at, Found: map[graph.Key][]graph.Subscription{}}
		if len(found) > 0 {
			l.Found[graph.Key{Name: "a", Gen: "g"}] = found
		}
		return l
	}
	old := with(live, func(r *graph.Record) { r.Gen = "old" })

	tests := []struct {
		name string
		s    renewal.Situation
		want renewal.Verb
		wake time.Time // of Wait only
	}{
		{"nothing there", renewal.Situation{Wish: wish, Record: none, MayCreate: true}, renewal.Create, now},
		{"not proven yet", renewal.Situation{Wish: wish, Record: none}, renewal.Wait, renewal.Never()},
		{"backing off", renewal.Situation{Wish: wish, Record: with(none, func(r *graph.Record) { r.NextAt = in(3) }), MayCreate: true}, renewal.Wait, in(3)},
		{"unsure, never listed", renewal.Situation{Wish: wish, Record: unsure, MayCreate: true}, renewal.List, now},
		{"unsure, listed before", renewal.Situation{Wish: wish, Record: unsure, MayCreate: true, Listing: listed(in(-2))}, renewal.List, now},
		{"unsure, listed and absent", renewal.Situation{Wish: wish, Record: unsure, MayCreate: true, Listing: listed(now)}, renewal.Create, now},
		{"unsure, listed, absent, not allowed", renewal.Situation{Wish: wish, Record: unsure, Listing: listed(now)}, renewal.Wait, renewal.Never()},
		{"unsure, listed and found", renewal.Situation{Wish: wish, Record: unsure, Listing: listed(now, graph.Subscription{ID: "s1"})}, renewal.Adopt, now},
		{"conflict", renewal.Situation{Wish: wish, Record: with(none, func(r *graph.Record) { r.ConflictID = "x" }), MayCreate: true}, renewal.Inspect, now},
		{"gone, then no quota", renewal.Situation{Wish: wish, Record: with(unsure, func(r *graph.Record) { r.FormerID, r.Reason = "s1", graph.ReasonQuota }), MayCreate: true}, renewal.Seek, now},
		{"gone, then no quota, sought", renewal.Situation{Wish: wish, Record: with(unsure, func(r *graph.Record) { r.FormerID, r.Sought, r.Reason = "s1", true, graph.ReasonQuota }), MayCreate: true}, renewal.List, now},
		{"alive", renewal.Situation{Wish: wish, Record: live}, renewal.Wait, in(30)},
		{"due", renewal.Situation{Wish: wish, Record: with(live, func(r *graph.Record) { r.RenewAt = now })}, renewal.Renew, now},
		{"due, store away", renewal.Situation{Wish: wish, Record: with(live, func(r *graph.Record) { r.RenewAt = in(-1) })}, renewal.Renew, now},
		{"overdue after a restart", renewal.Situation{Wish: wish, Record: with(live, func(r *graph.Record) { r.RenewAt = in(-100) })}, renewal.Renew, now},
		{"failed, backing off", renewal.Situation{Wish: wish, Record: with(live, func(r *graph.Record) { r.RenewAt, r.Attempt, r.NextAt = in(-5), 1, in(2) })}, renewal.Wait, in(2)},
		{"failed, due again", renewal.Situation{Wish: wish, Record: with(live, func(r *graph.Record) { r.RenewAt, r.Attempt, r.NextAt = in(-5), 9, now })}, renewal.Renew, now},
		{"in doubt", renewal.Situation{Wish: wish, Record: with(live, func(r *graph.Record) { r.RenewAt, r.Attempt, r.NextAt, r.Checks = in(-5), 1, now, 1 })}, renewal.Check, now},
		{"expired", renewal.Situation{Wish: wish, Record: with(live, func(r *graph.Record) { r.ExpiresAt = now })}, renewal.Lapse, now},
		{"nobody wishes for it", renewal.Situation{Record: live, MayDelete: true}, renewal.Delete, now},
		{"nobody wishes for it, may not delete", renewal.Situation{Record: live}, renewal.Wait, in(30)},
		{"nobody wishes for it, may not delete, due", renewal.Situation{Record: with(live, func(r *graph.Record) { r.RenewAt = now })}, renewal.Renew, now},
		{"nobody wishes for it, delete failed", renewal.Situation{Record: with(live, func(r *graph.Record) { r.State, r.NextAt = graph.StateDeleting, in(1) }), MayDelete: true}, renewal.Wait, in(1)},
		{"nobody wishes for it, expired", renewal.Situation{Record: with(live, func(r *graph.Record) { r.ExpiresAt = in(-1) })}, renewal.Forget, now},
		{"nobody wishes for it, nothing there", renewal.Situation{Record: none}, renewal.Forget, now},
		{"nobody wishes for it, unsure", renewal.Situation{Record: unsure}, renewal.List, now},
		{"nobody wishes for it, unsure, absent", renewal.Situation{Record: unsure, Listing: listed(now)}, renewal.Forget, now},
		{"nobody wishes for it, unsure, found", renewal.Situation{Record: unsure, Listing: listed(now, graph.Subscription{ID: "s1"})}, renewal.Adopt, now},
		{"paused", renewal.Situation{Wish: paused, Record: live, MayDelete: true}, renewal.Delete, now},
		{"paused and gone", renewal.Situation{Wish: paused, Record: none, MayCreate: true}, renewal.Wait, renewal.Never()},
		{"older gen, not replaced", renewal.Situation{Wish: wish, Record: old, MayDelete: true}, renewal.Wait, in(30)},
		{"older gen, replaced", renewal.Situation{Wish: wish, Record: old, MayDelete: true, Replaced: true}, renewal.Delete, now},
		{"older gen, gone", renewal.Situation{Wish: wish, Record: with(old, func(r *graph.Record) { r.ID = "" }), MayCreate: true}, renewal.Forget, now},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			action, wake := renewal.DecideOne(now, test.s)
			if action.Verb != test.want {
				t.Fatalf("DecideOne = %s, want %s", action.Verb, test.want)
			}
			if action.Verb == renewal.Wait && !wake.Equal(test.wake) {
				t.Errorf("wake-up at %v, want %v", wake, test.wake)
			}
			if action.Verb == renewal.Adopt && action.Found.ID != "s1" {
				t.Errorf("adopts %+v", action.Found)
			}
		})
	}
}

func TestPolicyHolds(t *testing.T) {
	p := renewal.DefaultPolicy()
	if p.RenewLatest > 2.0/3 || p.RenewEarliest >= p.RenewLatest {
		t.Error("at the latest a third of the life has to be left for tries")
	}
	if p.RetryBase >= p.RetryMax || p.ParkBase >= p.ParkMax || p.RetryMax >= p.ParkMax {
		t.Error("the ladders do not rise")
	}
	if p.TriesLeft < 3 {
		t.Error("several tries have to fit before the expiry")
	}
	for name, scaled := range map[string]renewal.Policy{"1": p.Compress(1), "0": p.Compress(0)} {
		if scaled != p {
			t.Errorf("scale %s changes the policy", name)
		}
	}
	if got := p.Compress(60); got.Margin != p.Margin/60 || got.ParkMax != p.ParkMax/60 || got.RenewLatest != p.RenewLatest {
		t.Errorf("compressed: %+v", got)
	}
}

func TestAsk(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p := renewal.DefaultPolicy()
	week := renewal.Terms{Rule: graph.Rule{Type: "message", MaxLifetime: 7 * 24 * time.Hour}}
	learned := week
	learned.Learned = 10070 * time.Minute
	tiny := week
	tiny.Learned = time.Minute
	tests := []struct {
		name  string
		wish  graph.Wish
		terms renewal.Terms
		scale float64
		want  time.Duration
	}{
		{"maximum less the margin", graph.Wish{}, week, 1, 7*24*time.Hour - p.Margin},
		{"what is wished for", graph.Wish{Lifetime: 6 * time.Hour}, week, 1, 6 * time.Hour},
		{"more than the maximum", graph.Wish{Lifetime: 1000 * time.Hour}, week, 1, 7*24*time.Hour - p.Margin},
		{"what Graph said", graph.Wish{}, learned, 1, 10070*time.Minute - p.Margin},
		{"a maximum below the margin", graph.Wish{}, tiny, 1, 6 * time.Second},
		{"compressed", graph.Wish{Lifetime: 6 * time.Hour}, week, 3600, 6 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := renewal.Ask(now, &test.wish, test.terms, p, test.scale).Sub(now); got != test.want {
				t.Errorf("asks for %v, want %v", got, test.want)
			}
		})
	}
}

func TestRenewAt(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p := renewal.DefaultPolicy()
	for _, life := range []time.Duration{2 * time.Minute, 5 * time.Minute, 45 * time.Minute, 60 * time.Hour, 29 * 24 * time.Hour} {
		for _, draw := range []float64{0, 0.5, 0.999} {
			wait := renewal.RenewAt(now, now.Add(life), p, draw).Sub(now)
			if wait > life*2/3 {
				t.Errorf("life %v: renewal after %v leaves less than a third", life, wait)
			}
			if life >= 5*time.Minute && wait < p.MinSpacing {
				t.Errorf("life %v: renewal after %v is too soon", life, wait)
			}
		}
	}
	early, late := renewal.RenewAt(now, now.Add(time.Hour), p, 0), renewal.RenewAt(now, now.Add(time.Hour), p, 0.999)
	if !early.Before(late) {
		t.Error("the draw does not spread renewals")
	}
}
