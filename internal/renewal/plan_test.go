package renewal_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

func TestPlan(t *testing.T) {
	now := time.Now()
	live := func(name, gen string, renewIn time.Duration) graph.Record {
		return graph.Record{Name: name, Gen: gen, ID: "id", State: graph.StateActive, RenewAt: now.Add(renewIn), ExpiresAt: now.Add(renewIn + time.Hour)}
	}
	held := live("over", "g", time.Minute)
	held.Held = true
	paused := wish("paused")
	paused.Paused = true
	lost := graph.Record{Name: "lost", Gen: "g", LostAt: now, State: graph.StateRecreating}
	failing := graph.Record{Name: "failing", Gen: "g", State: graph.StateParked, NextAt: now.Add(2 * time.Hour)}
	steps := renewal.Plan(now,
		[]graph.Wish{wish("new"), wish("alive"), wish("changed"), wish("lost"), wish("failing"), paused},
		[]graph.Record{live("alive", "g", time.Hour), live("changed", "f", 3*time.Hour), held, live("ended", "g", time.Hour), lost, failing})
	var got []string
	for _, s := range steps {
		got = append(got, fmt.Sprintf("%s %s/%s %v held=%v", s.Kind, s.Key.Name, s.Key.Gen, s.At.Sub(now), s.Held))
	}
	want := []string{
		"delete over/g 0s held=true",
		"replace changed/g 0s held=false",
		"delete ended/g 0s held=false",
		"recreate lost/g 0s held=false",
		"create new/g 0s held=false",
		"renew alive/g 1h0m0s held=false",
		"create failing/g 2h0m0s held=false",
		"renew changed/f 3h0m0s held=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
