package graphsim_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

// The whole life of a subscription in fake time: handshake, renewals over
// weeks, an outage of hours, expiry, and the recreation after it.
func TestWeeksInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		w.run()
		renew := func(id string) int {
			w.token = w.signIn(tenant, app) // tokens live an hour
			status, _ := w.graph(http.MethodPatch, "/"+id, map[string]any{"expirationDateTime": in(7*24*time.Hour - time.Minute)})
			return status
		}
		id := w.create(map[string]any{"expirationDateTime": in(7*24*time.Hour - time.Minute), "lifecycleNotificationUrl": lifeURL})
		for week := range 4 {
			time.Sleep(5 * 24 * time.Hour)
			if status := renew(id); status != http.StatusOK {
				t.Fatalf("renewal %d: %d", week, status)
			}
		}
		w.hook.set(nil, status(http.StatusBadGateway))
		w.notify(graphsim.Notification{Count: 7})
		time.Sleep(2 * time.Hour)
		w.hook.set(nil, nil)
		time.Sleep(2 * time.Hour)
		if c := w.sim.Counts(); c.Acknowledged != 7 || c.Dropped != 0 || c.Renewed != 4 {
			t.Errorf("after the outage: %+v", c)
		}
		time.Sleep(7 * 24 * time.Hour)
		if status := renew(id); status != http.StatusNotFound {
			t.Errorf("renewal after expiry: %d", status)
		}
		if again := w.create(nil); again == id {
			t.Error("a recreated subscription has its old id")
		}
		if c := w.sim.Counts(); c.Expired != 1 || c.Created != 2 || c.Live != 1 {
			t.Errorf("at the end: %+v", c)
		}
	})
}

// Everything at once, for the race detector.
func TestConcurrentUse(t *testing.T) {
	w := newWorld(t, graphsim.Config{ConflictOnDuplicate: true, DuplicateRate: 0.2, ReorderRate: 0.2, TimeScale: 1e6, Budgets: graphsim.DocumentedBudgets()})
	w.run()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 5 {
				status, body := w.graph(http.MethodPost, "", with(map[string]any{
					"resource": fmt.Sprintf("users/%d-%d/messages", i, n), "expirationDateTime": in(500 * time.Millisecond),
				}))
				if status != http.StatusCreated {
					t.Errorf("create: %d %v", status, body)
					continue
				}
				id := fmt.Sprint(body["id"])
				if _, err := w.sim.Notify(graphsim.Notification{Count: 3}); err != nil {
					t.Error(err)
				}
				w.graph(http.MethodGet, "", nil)
				w.graph(http.MethodPatch, "/"+id, map[string]any{"expirationDateTime": in(600 * time.Millisecond)})
				w.sim.SetClockOffset(0)
				w.sim.State()
				w.sim.Log(0)
				if n%2 == 0 {
					w.graph(http.MethodDelete, "/"+id, nil)
				}
			}
		})
	}
	wg.Wait()
	if c := w.sim.Counts(); c.Created != 40 {
		t.Errorf("counts %+v", c)
	}
}
