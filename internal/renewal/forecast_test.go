package renewal_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

func TestForecast(t *testing.T) {
	now := time.Now()
	many := func(n int, in, every time.Duration) (needs []renewal.Need) {
		for range n {
			needs = append(needs, renewal.NeedOf(now.Add(in), every))
		}
		return needs
	}
	for name, c := range map[string]struct {
		needs []renewal.Need
		want  float64
	}{
		"nothing":                        {nil, 0},
		"all expire at once":             {many(1000, 50*time.Second, time.Hour), 1000.0 / (10 * 50)},
		"in the long run":                {many(72_000, 48*time.Hour, time.Hour), 2},
		"a few soon, many later":         {append(many(100, 24*time.Hour, 0), many(5, time.Second, 0)...), 5.0 / 10},
		"the crowd in the middle counts": {append(many(10, 10*time.Second, 0), many(1000, 101*time.Second, 0)...), 1010.0 / 1010},
		"what has lapsed needs nothing":  {many(50, -time.Second, 0), 0},
	} {
		if got := renewal.Forecast(now, c.needs, 10); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The service says it well before something lapses, once, and when it is over.
func TestShortBudgetIsForeseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := newFakeGraph(week), newFakeStore()
		var wishes []graph.Wish
		for i := range 60 {
			one := wish(fmt.Sprintf("w%02d", i))
			one.Lifetime = 45 * time.Minute
			wishes = append(wishes, one)
		}
		log := &logBuffer{}
		w := newWorld(t, g, s, wishes...)
		w.log.set(log)
		// A share in which one write takes a minute: 60 of 45 minutes are too many.
		w.share = 0.0007
		w.want(wishes...)
		w.lead()
		time.Sleep(40 * time.Minute)
		if strings.Count(log.String(), "the write budget cannot renew every subscription") != 1 {
			t.Errorf("not told, or twice:\n%s", log)
		}
		w.share = 0.9
		w.want(wishes...)
		time.Sleep(30 * time.Minute)
		if strings.Count(log.String(), "the write budget suffices again") != 1 {
			t.Errorf("the end is not told:\n%s", log)
		}
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
	})
}
