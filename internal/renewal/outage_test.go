package renewal_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Each cause of a gap, from what brings it about to the record and the events.
func TestEachCauseOfAGap(t *testing.T) {
	day := 24 * time.Hour
	for _, test := range []struct {
		cause graph.GapCause
		// play begins a day after the creation and ends when the gap is over.
		play     func(t *testing.T, w *world)
		from, to time.Duration // after the creation
	}{
		{graph.GapRecreated, func(_ *testing.T, w *world) {
			w.graph.remove("s1") // nobody tells; the next renewal finds out
			time.Sleep(5 * day)
		}, 0, 0},
		{graph.GapRemoved, func(t *testing.T, w *world) {
			t.Helper()
			w.graph.remove("s1")
			w.store.tell(graph.LifecycleItem{ID: "1", Name: "a", Gen: "g", SubscriptionID: "s1", Event: "subscriptionRemoved", ReceivedAt: time.Now()})
			time.Sleep(time.Hour)
		}, 0, day},
		{graph.GapMissed, func(_ *testing.T, w *world) {
			w.store.tell(graph.LifecycleItem{ID: "1", Name: "a", Gen: "g", SubscriptionID: "s1", Event: "missed", ReceivedAt: time.Now()})
			time.Sleep(time.Hour)
		}, day - 4*time.Hour, day},
		{graph.GapLapsed, func(t *testing.T, w *world) {
			t.Helper()
			if err := w.stop(nil); err != nil {
				t.Error(err)
			}
			time.Sleep(9 * day) // nobody leads
			w.lead()
			time.Sleep(time.Hour)
		}, week - 5*time.Minute, 10 * day},
		{graph.GapPaused, func(_ *testing.T, w *world) {
			paused := wish("a")
			paused.Paused = true
			w.want(paused)
			time.Sleep(day)
			w.want(wish("a"))
			time.Sleep(time.Hour)
		}, day, 2 * day},
		{graph.GapOutage, func(_ *testing.T, w *world) {
			now := time.Now()
			w.store.mu.Lock()
			w.store.outages = []graph.Gap{{Name: "a", From: now.Add(-9 * time.Hour), To: now, Cause: graph.GapOutage}}
			w.store.mu.Unlock()
			w.store.tell() // the token alone
			time.Sleep(time.Hour)
		}, day - 9*time.Hour, day},
	} {
		t.Run(string(test.cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, newFakeGraph(week), newFakeStore(), wish("a"))
				w.lead()
				time.Sleep(time.Minute)
				created := w.store.record(t, "a", "g").CreatedAt
				time.Sleep(time.Until(created.Add(day)))
				test.play(t, w)
				if err := w.stop(nil); err != nil {
					t.Error(err)
				}
				if len(w.store.gaps) != 1 {
					t.Fatalf("gaps %+v", w.store.gaps)
				}
				gap := w.store.gaps[0]
				if gap.Cause != test.cause || gap.Name != "a" {
					t.Errorf("gap %+v", gap)
				}
				near := func(what string, got time.Time, after time.Duration) {
					if off := got.Sub(created.Add(after)); off.Abs() > time.Minute {
						t.Errorf("%s is %v after the creation, want %v", what, got.Sub(created), after)
					}
				}
				near("from", gap.From, test.from)
				if test.to > 0 {
					near("to", gap.To, test.to)
				} else if r := w.store.record(t, "a", "g"); !gap.To.Equal(r.CreatedAt) {
					t.Errorf("to %v, recreated at %v", gap.To, r.CreatedAt)
				}
				if test.cause != graph.GapOutage { // whose events are the store's
					gapEvents(t, w.store, gap)
				}
			})
		})
	}
}

// gapEvents wants that the sinks were told of the gap's begin and end.
func gapEvents(t *testing.T, s *fakeStore, gap graph.Gap) {
	t.Helper()
	var told []string
	for _, event := range s.events {
		if event.Type == graph.EventGapOpened || event.Type == graph.EventGapClosed {
			told = append(told, fmt.Sprint(event.Type, event.Name, event.Cause, event.From.Equal(gap.From), event.To.Equal(gap.To)))
		}
	}
	want := []string{
		fmt.Sprint(graph.EventGapOpened, "a", gap.Cause, true, false),
		fmt.Sprint(graph.EventGapClosed, "a", gap.Cause, true, true),
	}
	if strings.Join(told, ";") != strings.Join(want, ";") {
		t.Errorf("events %v, want %v", told, want)
	}
}

// A leader tells of what it finds when it begins, in pieces and whatever the
// store fails meanwhile, and says so once.
func TestOutageIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		w := newWorld(t, newFakeGraph(week), newFakeStore(), wish("a"))
		w.log.set(log)
		now := time.Now()
		for i := range 1200 {
			w.store.outages = append(w.store.outages, graph.Gap{Name: fmt.Sprint("w", i), From: now.Add(-60 * time.Hour), To: now, Cause: graph.GapOutage})
		}
		w.lead()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(w.store.gaps); n != 1200 {
			t.Errorf("told of %d", n)
		}
		text := log.String()
		if n := strings.Count(text, "changes were lost"); n != 3 || !strings.Contains(text, "count=500") || !strings.Contains(text, "remedy=") {
			t.Errorf("%d warnings: %s", n, text)
		}
		w.store.setAway(true)
		w.store.tell()
		time.Sleep(time.Minute)
		w.store.setAway(false)
		w.store.mu.Lock()
		w.store.outages = []graph.Gap{{Name: "a", From: now, To: time.Now(), Cause: graph.GapOutage}}
		w.store.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(w.store.gaps); n != 1201 {
			t.Errorf("told of %d after the store was away", n)
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}
