package renewal_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// gauge gives the value of a gauge without labels.
func (w *world) gauge(name string) float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	w.t.Fatalf("no metric %s", name)
	return 0
}

// quiet is a wish that may not be silent for a day.
func quiet(name string) graph.Wish {
	w := wish(name)
	w.SilentAfter = 24 * time.Hour
	return w
}

// hears checks how many are silent, and how often that was warned of in all.
func (w *world) hears(when string, log *logBuffer, silent float64, warnings int) {
	w.t.Helper()
	synctest.Wait()
	if got := w.gauge("graphsubd_silent_subscriptions"); got != silent {
		w.t.Errorf("%s: %v are silent, want %v", when, got, silent)
	}
	if got := strings.Count(log.String(), `msg="subscription is silent"`); got != warnings {
		w.t.Errorf("%s: %d warnings, want %d", when, got, warnings)
	}
}

func TestSilenceIsToldOnceAndEndsWithTheNextItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		w := newWorld(t, newFakeGraph(week), newFakeStore(), quiet("a"), wish("b"))
		w.log.set(log)
		w.lead()
		time.Sleep(24*time.Hour - time.Minute)
		w.hears("less than a day after its creation", log, 0, 0)
		time.Sleep(2 * time.Minute)
		w.hears("a day after its creation", log, 1, 1)
		time.Sleep(10 * 24 * time.Hour)
		w.hears("renewed meanwhile", log, 1, 1)
		if text := log.String(); !strings.Contains(text, "remedy=") || !strings.Contains(text, "reason=silent") {
			t.Error("the warning names no reason or no remedy")
		}
		w.store.came("a")
		time.Sleep(2 * time.Minute)
		w.hears("after an item", log, 0, 1)
		if !strings.Contains(log.String(), `msg="subscription is no longer silent"`) {
			t.Error("the end was not told")
		}
		time.Sleep(24 * time.Hour)
		w.hears("a day after the item", log, 1, 2)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		w.hears("after the term", log, 0, 2)
	})
}

// A look reads a row for each name, so it is only taken when it may find
// something.
func TestSilenceLooksRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFakeGraph(week), newFakeStore(), wish("a"))
		led(t, w, week)
		if w.store.looks != 0 {
			t.Errorf("%d looks although nobody asked", w.store.looks)
		}
		w.want(quiet("a"))
		w.store.came("a")
		led(t, w, 20*time.Hour)
		if w.store.looks > 2 {
			t.Errorf("%d looks within silentAfter", w.store.looks)
		}
	})
}

// A configuration that changes during a look makes the loop neither spin nor
// forget to look again.
func TestSilenceLooksOverAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		s := newFakeStore()
		s.lookTakes = 10 * time.Second
		w := newWorld(t, newFakeGraph(week), s, quiet("a"))
		w.log.set(log)
		w.lead()
		time.Sleep(time.Second)
		w.want(quiet("a"), quiet("b"))
		time.Sleep(20 * time.Minute)
		s.mu.Lock()
		if s.looks > 3 {
			t.Errorf("%d looks in twenty minutes", s.looks)
		}
		s.mu.Unlock()
		time.Sleep(24 * time.Hour)
		w.hears("a day after the creation of both", log, 2, 2)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestSilenceOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		first := newWorld(t, g, s, quiet("a"))
		led(t, first, 20*time.Hour)

		log := &logBuffer{}
		second := newWorld(t, g, s, quiet("a"))
		second.log.set(log)
		second.lead()
		time.Sleep(time.Minute)
		second.hears("after a restart", log, 0, 0)
		time.Sleep(4*time.Hour + time.Minute)
		second.hears("a day after its creation, over a restart", log, 1, 1)
		if err := second.stop(nil); err != nil {
			t.Error(err)
		}

		// After an outage it counts from when something could come again.
		s.mu.Lock()
		s.receiving = graph.Receiving{Since: time.Now().Add(-60 * time.Hour), At: time.Now()}
		s.mu.Unlock()
		time.Sleep(60 * time.Hour)
		log = &logBuffer{}
		third := newWorld(t, g, s, quiet("a"))
		third.log.set(log)
		third.lead()
		time.Sleep(2 * time.Minute)
		third.hears("nobody noted yet that anything could come", log, 0, 0)
		s.mu.Lock()
		s.receiving = graph.Receiving{Since: time.Now()}
		s.mu.Unlock()
		time.Sleep(23 * time.Hour)
		third.hears("less than a day after the outage", log, 0, 0)
		time.Sleep(time.Hour + 2*time.Minute)
		third.hears("a day after the outage", log, 1, 1)
		if err := third.stop(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsPausedOrNotThereIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		paused := quiet("a")
		w := newWorld(t, newFakeGraph(week), newFakeStore(), quiet("a"))
		w.log.set(log)
		w.lead()
		time.Sleep(25 * time.Hour)
		w.hears("a day after its creation", log, 1, 1)
		paused.Paused = true
		w.want(paused)
		time.Sleep(time.Minute)
		w.hears("paused", log, 0, 1)
		time.Sleep(3 * 24 * time.Hour)
		w.hears("paused for long", log, 0, 1)
		w.want(quiet("a"))
		time.Sleep(23 * time.Hour)
		w.hears("less than a day after it was resumed", log, 0, 1)
		time.Sleep(2 * time.Hour)
		w.hears("a day after it was resumed", log, 1, 2)
		w.want() // nobody wishes for it
		time.Sleep(time.Minute)
		w.hears("not desired", log, 0, 2)
		w.want(wish("b")) // and then somebody asks for it within the term
		time.Sleep(time.Hour)
		w.want(quiet("b"))
		time.Sleep(24 * time.Hour)
		w.hears("asked for later", log, 1, 3)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}
