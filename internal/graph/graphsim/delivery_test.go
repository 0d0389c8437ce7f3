package graphsim_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

// notify queues and lets everything that is due be delivered.
func (w *world) notify(n graphsim.Notification) int {
	w.t.Helper()
	queued, err := w.sim.Notify(n)
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	return queued
}

func TestNotificationsReachTheirEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		id := w.create(map[string]any{"notificationUrl": hookURL + "?key=1"})
		w.run()
		if n := w.notify(graphsim.Notification{SubscriptionID: id, Count: 20}); n != 20 {
			t.Errorf("queued %d", n)
		}
		items := w.hook.items(t)
		urls, _ := w.hook.posts()
		if len(items) != 20 || len(urls) >= 20 {
			t.Fatalf("%d items in %d POSTs, want 20 in fewer", len(items), len(urls))
		}
		withID := 0
		for _, it := range items {
			if it["subscriptionId"] != id || it["tenantId"] != tenant || it["clientState"] != "sesame" || it["lifecycleEvent"] != nil {
				t.Errorf("item %v", it)
			}
			if change := it["changeType"]; change != "created" && change != "updated" {
				t.Errorf("changeType %v was not subscribed", change)
			}
			if it["id"] != nil {
				withID++
			}
		}
		if withID == 0 || withID == 20 {
			t.Errorf("%d of 20 items have an id, want some", withID)
		}
		if !slices.ContainsFunc(urls, func(u string) bool { return u == hookURL+"?key=1" }) {
			t.Errorf("URLs %v", urls)
		}
		if c := w.sim.Counts(); c.Sent != 20 || c.Acknowledged != 20 || c.Attempts != len(urls) || c.Queued != 0 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestItemsOfEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{DelegatedOnly: true, BatchSize: 1})
		w.run()
		for resource, want := range map[string]struct{ path, odataType string }{
			"users/U1/messages":               {"users/u1/messages/", "#microsoft.graph.message"},
			"users/U1/events":                 {"users/u1/events/", "#microsoft.graph.event"},
			"users/U1/contacts":               {"users/u1/contacts/", "#microsoft.graph.contact"},
			"users/U1":                        {"users/u1", "#microsoft.graph.user"},
			"groups":                          {"groups/", "#microsoft.graph.group"},
			"/drives/D1/root":                 {"drives/d1/root", "#microsoft.graph.driveitem"},
			"sites/S1/lists/L1":               {"sites/s1/lists/l1", "#microsoft.graph.listitem"},
			"chats/19:X@thread.v2/messages":   {"chats/19:x@thread.v2/messages/", "#microsoft.graph.chatmessage"},
			"teams/T1/channels/C1/messages":   {"teams/t1/channels/c1/messages/", "#microsoft.graph.chatmessage"},
			"communications/callRecords":      {"communications/callrecords/", "#microsoft.graph.callrecord"},
			"communications/presences/P1":     {"communications/presences/p1", "#microsoft.graph.presence"},
			"users/U1/todo/lists/L%201/tasks": {"users/u1/todo/lists/l%201/tasks/", "#microsoft.graph.todotask"},
			"teams/T1/members":                {"teams/t1/members/", "#microsoft.graph.conversationmember"},
		} {
			id := w.create(map[string]any{"resource": resource, "changeType": "updated"})
			before := len(w.hook.items(t))
			w.notify(graphsim.Notification{SubscriptionID: id, Count: 12})
			named, unnamed := 0, 0
			for _, it := range w.hook.items(t)[before:] {
				path, _ := it["resource"].(string)
				flat := strings.ToLower(strings.NewReplacer("('", "/", "')", "").Replace(path))
				if !strings.HasPrefix(flat, want.path) {
					t.Errorf("%s: resource %q", resource, path)
				}
				data, present := it["resourceData"]
				if !present {
					t.Errorf("%s: no resourceData", resource)
				}
				if data == nil {
					unnamed++
					continue
				}
				named++
				fields, _ := data.(map[string]any)
				if odataType := fmt.Sprint(fields["@odata.type"]); strings.ToLower(odataType) != want.odataType {
					t.Errorf("%s: @odata.type %v", resource, odataType)
				}
			}
			shy := strings.Contains(resource, "drives") || strings.Contains(resource, "sites")
			if named == 0 || (unnamed > 0) != shy {
				t.Errorf("%s: %d items with and %d without resourceData", resource, named, unnamed)
			}
		}
	})
}

func TestOneBodyHoldsItemsOfManySubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{BatchSize: 50})
		first, second := w.create(nil), w.create(map[string]any{"resource": "users/1/events"})
		w.run()
		w.notify(graphsim.Notification{Count: 25})
		urls, _ := w.hook.posts()
		per := map[any]int{}
		zones := map[string]bool{}
		for _, it := range w.hook.items(t) {
			per[it["subscriptionId"]]++
			text, _ := it["subscriptionExpirationDateTime"].(string)
			at, err := time.Parse(time.RFC3339, text)
			if err != nil || time.Until(at) > time.Hour || time.Until(at) < 59*time.Minute {
				t.Errorf("expiry %q: %v", text, err)
			}
			zones[at.Format("-07:00")] = true
		}
		if per[first] != 25 || per[second] != 25 || len(urls) == 50 || len(zones) != 3 {
			t.Errorf("items %v in %d POSTs, zones %v", per, len(urls), zones)
		}
	})
}

func TestUndeliveredIsRetriedForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		id := w.create(nil)
		w.hook.set(nil, status(http.StatusServiceUnavailable))
		w.run()
		began := time.Now()
		w.notify(graphsim.Notification{SubscriptionID: id})
		time.Sleep(3 * time.Hour)
		w.hook.set(nil, nil)
		time.Sleep(time.Hour)
		_, times := w.hook.posts()
		if len(times) < 8 {
			t.Fatalf("%d attempts in 4 hours", len(times))
		}
		for i := 2; i < len(times); i++ {
			pause, before := times[i].Sub(times[i-1]), times[i-1].Sub(times[i-2])
			if pause < before && pause < 24*time.Minute {
				t.Errorf("attempt %d came %v after the last, which came after %v", i+1, pause, before)
			}
		}
		if pause := times[1].Sub(began); pause < 8*time.Second || pause > 12*time.Second {
			t.Errorf("first repetition after %v", pause)
		}
		if c := w.sim.Counts(); c.Sent != 1 || c.Acknowledged != 1 || c.Attempts != len(times) || c.Dropped != 0 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestUndeliverableIsDroppedAfterTheWindow(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer int
		scale  float64
	}{{"500", 500, 1}, {"redirect", 302, 1}, {"gone", 410, 1}, {"compressed", 500, 60}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, graphsim.Config{TimeScale: c.scale})
				w.create(nil)
				w.hook.set(nil, status(c.answer))
				w.run()
				w.notify(graphsim.Notification{Count: 3})
				window := time.Duration(float64(4*time.Hour) / c.scale)
				time.Sleep(window - time.Duration(float64(37*time.Minute)/c.scale))
				if got := w.sim.Counts(); got.Dropped != 0 || got.Queued != 3 {
					t.Errorf("before the window's end: %+v", got)
				}
				time.Sleep(window)
				if got := w.sim.Counts(); got.Dropped != 3 || got.Queued != 0 || got.Acknowledged != 0 || got.Sent != 3 {
					t.Errorf("after: %+v", got)
				}
			})
		})
	}
}

func TestAllowances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{BatchSize: 1, Health: graphsim.Health{Off: true}})
		w.create(nil)
		slow := func(d time.Duration) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(d)
				w.WriteHeader(http.StatusOK)
			}
		}
		w.run()
		// Too slow for the first attempt, in time for the second.
		w.hook.set(nil, slow(4*time.Second))
		w.notify(graphsim.Notification{})
		time.Sleep(time.Minute)
		if c := w.sim.Counts(); c.Attempts != 2 || c.Acknowledged != 1 {
			t.Errorf("4s: %+v", c)
		}
		w.hook.set(nil, slow(11*time.Second))
		w.notify(graphsim.Notification{})
		time.Sleep(5 * time.Hour)
		if c := w.sim.Counts(); c.Dropped != 1 || c.Acknowledged != 1 {
			t.Errorf("11s: %+v", c)
		}
	})
}

func TestSlowEndpointGetsNewNotificationsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{BatchSize: 1, Health: graphsim.Health{Minimum: 3}})
		id := w.create(map[string]any{"expirationDateTime": in(100 * time.Hour)})
		w.run()
		w.hook.set(nil, func(rw http.ResponseWriter, _ *http.Request) {
			time.Sleep(4 * time.Second)
			rw.WriteHeader(http.StatusAccepted)
		})
		w.notify(graphsim.Notification{SubscriptionID: id, Count: 3})
		time.Sleep(30 * time.Second)
		if got := w.sim.State().Endpoints["https://hooks.test"]; got != "slow" {
			t.Fatalf("endpoint is %q", got)
		}
		w.hook.set(nil, nil)
		before := time.Now()
		w.notify(graphsim.Notification{SubscriptionID: id})
		time.Sleep(11 * time.Minute)
		_, times := w.hook.posts()
		if late := times[len(times)-1].Sub(before); late != 10*time.Minute {
			t.Errorf("delivered %v late, want 10m", late)
		}
		if got := w.sim.State().Endpoints["https://hooks.test"]; got != "healthy" {
			t.Errorf("afterwards it is %q", got)
		}
	})
}

func TestEndpointBeyondTheRetryAllowanceLosesNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{BatchSize: 1, Health: graphsim.Health{Minimum: 3}})
		id := w.create(map[string]any{"expirationDateTime": in(100 * time.Hour)})
		w.run()
		w.hook.set(nil, func(http.ResponseWriter, *http.Request) { time.Sleep(11 * time.Second) })
		w.notify(graphsim.Notification{SubscriptionID: id, Count: 4})
		time.Sleep(40 * time.Second)
		if got := w.sim.State().Endpoints["https://hooks.test"]; got != "dropping" {
			t.Fatalf("endpoint is %q", got)
		}
		w.hook.set(nil, nil)
		w.notify(graphsim.Notification{SubscriptionID: id})
		time.Sleep(time.Minute)
		c := w.sim.Counts()
		if c.Dropped == 0 || c.Acknowledged != 0 {
			t.Errorf("while dropping: %+v", c)
		}
		time.Sleep(10 * time.Minute)
		w.notify(graphsim.Notification{SubscriptionID: id})
		if after := w.sim.Counts(); after.Acknowledged != 1 {
			t.Errorf("after the state: %+v", after)
		}
	})
}

func TestDuplicatesReorderAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{BatchSize: 1, DuplicateRate: 0.5, ReorderRate: 0.3, Delay: 2 * time.Second})
		id := w.create(map[string]any{"resource": "users/1/events", "changeType": "updated"})
		w.run()
		w.notify(graphsim.Notification{SubscriptionID: id, Count: 100})
		time.Sleep(time.Minute)
		seen := map[string]int{}
		for _, it := range w.hook.items(t) {
			seen[fmt.Sprint(it["resource"])]++
		}
		c := w.sim.Counts()
		if len(seen) != 100 || c.Sent != 100 || c.Acknowledged != 100 || c.DuplicatesSent < 30 || c.DuplicatesSent > 70 {
			t.Errorf("%d distinct, counts %+v", len(seen), c)
		}
		if got := len(w.hook.items(t)); got != 100+c.DuplicatesSent {
			t.Errorf("%d items for %d duplicates", got, c.DuplicatesSent)
		}
		_, times := w.hook.posts()
		if spread := times[len(times)-1].Sub(times[0]); spread < time.Second {
			t.Errorf("delivered within %v", spread)
		}
	})
}

func TestGoneSubscriptionsGetNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		short := w.create(map[string]any{"expirationDateTime": in(time.Hour)})
		w.create(map[string]any{"resource": "users/1/events", "expirationDateTime": in(3 * time.Hour)})
		w.run()
		time.Sleep(time.Hour)
		if _, err := w.sim.Notify(graphsim.Notification{SubscriptionID: short}); err == nil {
			t.Error("an expired subscription was notified")
		}
		if n := w.notify(graphsim.Notification{}); n != 1 {
			t.Errorf("queued %d, want that of the living one", n)
		}
	})
}

func TestLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		id := w.create(map[string]any{"lifecycleNotificationUrl": lifeURL})
		bare := w.create(map[string]any{"resource": "users/1/events"})
		w.run()
		check(t, w.sim.Lifecycle(id, graphsim.ReauthorizationRequired))
		synctest.Wait()
		check(t, w.sim.Lifecycle(bare, graphsim.Missed))
		synctest.Wait()
		check(t, w.sim.Remove(id, true))
		synctest.Wait()
		if err := w.sim.Lifecycle(bare, "other"); err == nil {
			t.Error("an unknown event was taken")
		}
		if err := w.sim.Lifecycle(id, graphsim.Missed); err == nil {
			t.Error("a removed subscription was taken")
		}
		urls, _ := w.hook.posts()
		if want := []string{lifeURL, hookURL, lifeURL}; !slices.Equal(urls, want) {
			t.Errorf("sent to %v, want %v", urls, want)
		}
		events := []string{}
		for _, it := range w.hook.items(t) {
			events = append(events, fmt.Sprint(it["lifecycleEvent"]))
			for _, absent := range []string{"changeType", "resource", "resourceData"} {
				if _, ok := it[absent]; ok {
					t.Errorf("lifecycle item has %s: %v", absent, it)
				}
			}
			if it["clientState"] != "sesame" || it["tenantId"] != tenant {
				t.Errorf("item %v", it)
			}
		}
		if want := []string{"reauthorizationRequired", "missed", "subscriptionRemoved"}; !slices.Equal(events, want) {
			t.Errorf("events %v, want %v", events, want)
		}
	})
}

func TestRunCanEndAndGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		w.create(nil)
		if _, err := w.sim.Notify(graphsim.Notification{Count: 2, ClientState: new(string)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if c := w.sim.Counts(); c.Attempts != 0 || c.Queued != 2 {
			t.Errorf("without Run: %+v", c)
		}
		w.run()
		synctest.Wait()
		if c := w.sim.Counts(); c.Acknowledged != 2 {
			t.Errorf("with Run: %+v", c)
		}
		for _, it := range w.hook.items(t) {
			if it["clientState"] != "" {
				t.Errorf("clientState %v was to be forged", it["clientState"])
			}
		}
	})
}
