package graphsim_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

// record makes subscriptions in a racing order and gives all items by
// subscription, sorted.
func record(t *testing.T, seed uint64) map[string][]string {
	t.Helper()
	w := newWorld(t, graphsim.Config{Seed: seed, BatchSize: 3})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { w.create(map[string]any{"resource": fmt.Sprintf("users/%d/messages", i)}) })
	}
	wg.Wait()
	w.run()
	w.notify(graphsim.Notification{Count: 5})
	items := map[string][]string{}
	for _, it := range w.hook.items(t) {
		id := fmt.Sprint(it["subscriptionId"])
		items[id] = append(items[id], fmt.Sprint(it["id"], it["changeType"], it["resource"], it["resourceData"]))
	}
	for _, list := range items {
		slices.Sort(list)
	}
	return items
}

func TestTheSeedDecidesIDsAndItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, again, other := record(t, 11), record(t, 11), record(t, 12)
		if len(first) != 8 || !maps.EqualFunc(first, again, slices.Equal) {
			t.Errorf("the same seed gave\n%v\nand\n%v", first, again)
		}
		for id := range first {
			if _, ok := other[id]; ok {
				t.Errorf("two seeds gave the id %s", id)
			}
		}
	})
}

func TestASeedIsDrawnAndShown(t *testing.T) {
	first, err := graphsim.New(graphsim.Config{})
	check(t, err)
	second, err := graphsim.New(graphsim.Config{})
	check(t, err)
	if first.Seed() == 0 || first.Seed() >= 1<<53 || first.Seed() == second.Seed() {
		t.Errorf("seeds %d and %d", first.Seed(), second.Seed())
	}
}

func TestConfigFaultsAreNamedTogether(t *testing.T) {
	_, err := graphsim.New(graphsim.Config{
		TimeScale: 0.5, GrantedShare: 2, DuplicateRate: -1, ReorderRate: 2, PageSize: -1, ValidationTokenVersion: "3.0", Delay: -1,
		MaxLifetimes: map[graphsim.Kind]time.Duration{"letter": 0}, Clients: map[string]graphsim.Client{"x": {}}, Tenants: []string{"y"},
	})
	if err == nil {
		t.Fatal("a bad configuration was taken")
	}
	for _, text := range []string{
		"TimeScale", "GrantedShare", "DuplicateRate", "ReorderRate", "PageSize", "ValidationTokenVersion",
		"durations", `unknown kind "letter"`, "must be positive", `client "x"`, `tenant "y"`,
	} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error lacks %q: %v", text, err)
		}
	}
}
