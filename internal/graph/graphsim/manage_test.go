package graphsim_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

func TestListing(t *testing.T) {
	w := newWorld(t, graphsim.Config{PageSize: 2})
	var ids []string
	for i := range 5 {
		ids = append(ids, w.create(map[string]any{"resource": fmt.Sprintf("users/%d/messages", i)}))
	}
	if err := w.sim.Hide(ids[1], true); err != nil {
		t.Fatal(err)
	}
	if status, _ := w.graph(http.MethodGet, "/"+ids[1], nil); status != http.StatusOK {
		t.Errorf("a hidden subscription by id: %d", status)
	}
	mine := w.token
	w.token = w.signIn(tenant, "00000000-0000-4000-8000-000000000001")
	w.create(nil)
	w.token = mine

	var got []string
	pages := 0
	for next := "https://graph.test/v1.0/subscriptions"; next != ""; pages++ {
		status, body := w.send(w.request(http.MethodGet, next, ""))
		if status != http.StatusOK || body["@odata.context"] != "https://graph.test/v1.0/$metadata#subscriptions" {
			t.Fatalf("list: %d %v", status, body)
		}
		value, _ := body["value"].([]any)
		for _, v := range value {
			sub, _ := v.(map[string]any)
			if state, ok := sub["clientState"]; !ok || state != nil {
				t.Errorf("clientState in a listing: %v", sub)
			}
			got = append(got, fmt.Sprint(sub["id"]))
		}
		next, _ = body["@odata.nextLink"].(string)
		if next != "" && !strings.HasPrefix(next, "https://graph.test/v1.0/subscriptions?$skiptoken=") {
			t.Fatalf("next link %q", next)
		}
	}
	want := []string{ids[0], ids[2], ids[3], ids[4]}
	if strings.Join(got, " ") != strings.Join(want, " ") || pages != 2 {
		t.Errorf("listed %v on %d pages, want %v on 2", got, pages, want)
	}
}

func TestODataOptionsAreRefused(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	for _, query := range []string{"?$top=5", "?$filter=x", "?$select=id", "?$skiptoken=nonsense", "?$skiptoken=YWZ0ZXI6eA"} {
		if status, body := w.graph(http.MethodGet, query, nil); status != http.StatusBadRequest {
			t.Errorf("%s: %d %v", query, status, body)
		}
	}
}

func TestUpdate(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	id := w.create(nil)
	status, body := w.graph(http.MethodPatch, "/"+id, map[string]any{"expirationDateTime": in(48 * time.Hour)})
	if left := time.Until(expiry(t, body)); status != http.StatusOK || left < 47*time.Hour || body["id"] != id {
		t.Errorf("renewal: %d %v", status, body)
	}
	cert := certificate(t, newRSA(t, 2048))
	cases := map[string]struct {
		body          map[string]any
		code, message string
	}{
		"nothing": {
			map[string]any{},
			"InvalidRequest",
			"Subscription must contain either the 'expirationDateTime' or 'notificationUrl' property and its value.",
		},
		"certificate alone": {
			map[string]any{"encryptionCertificate": cert, "encryptionCertificateId": "a"},
			"InvalidRequest",
			"Subscription must contain either the 'expirationDateTime' or 'notificationUrl' property and its value.",
		},
		"certificate with URL": {
			map[string]any{"encryptionCertificate": cert, "encryptionCertificateId": "a", "notificationUrl": hookURL}, "InvalidRequest", "",
		},
		"half a certificate": {
			map[string]any{"encryptionCertificate": cert, "expirationDateTime": in(time.Hour)},
			"InvalidRequest",
			"encryptionCertificateId is a required property for subscription creation",
		},
		"certificate of a basic one": {
			map[string]any{"encryptionCertificate": cert, "encryptionCertificateId": "a", "expirationDateTime": in(time.Hour)},
			"InvalidRequest", "encryptionCertificate needs includeResourceData.",
		},
		"clientState":   {map[string]any{"expirationDateTime": in(time.Hour), "clientState": "x"}, "InvalidRequest", payloadText},
		"lifecycle URL": {map[string]any{"expirationDateTime": in(time.Hour), "lifecycleNotificationUrl": lifeURL}, "InvalidRequest", payloadText},
		"no zone":       {map[string]any{"expirationDateTime": "2030-01-01T00:00:00"}, "InvalidRequest", payloadText},
		"too long": {
			map[string]any{"expirationDateTime": in(10081 * time.Minute)},
			"ExtensionError",
			"Subscription expiration can only be 10080 minutes in the future.",
		},
		"http": {map[string]any{"notificationUrl": "http://hooks.test/"}, "InvalidRequest", "The notificationUrl must be an https URL."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status, body := w.graph(http.MethodPatch, "/"+id, c.body)
			(&world{t: t}).refused(status, body, 400, c.code, c.message)
		})
	}
	if c := w.sim.Counts(); c.Renewed != 1 || c.Operations["renew"][400] != len(cases) {
		t.Errorf("counts %+v", c)
	}
}

func TestUpdateOfTheURLIsValidated(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	id := w.create(nil)
	moved := map[string]any{"notificationUrl": "https://hooks.test/notifications/b"}
	w.hook.set(status(http.StatusNotFound), nil)
	code, body := w.graph(http.MethodPatch, "/"+id, moved)
	w.refused(code, body, 400, "ValidationError", "Subscription validation request failed. HTTP status code is 'NotFound'. "+
		"Notification endpoint must respond with 200 OK to validation request.")
	// The URL it has needs no handshake.
	if code, body := w.graph(http.MethodPatch, "/"+id, map[string]any{"notificationUrl": hookURL}); code != 200 {
		t.Errorf("same URL: %d %v", code, body)
	}
	w.hook.set(nil, nil)
	if code, body := w.graph(http.MethodPatch, "/"+id, moved); code != 200 || body["notificationUrl"] != moved["notificationUrl"] {
		t.Errorf("new URL: %d %v", code, body)
	}
}

func TestRotationOfTheCertificate(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	id := w.create(map[string]any{
		"resource": "users/1/messages?$select=id", "includeResourceData": true,
		"encryptionCertificate": certificate(t, newRSA(t, 2048)), "encryptionCertificateId": "old",
	})
	status, body := w.graph(http.MethodPatch, "/"+id, map[string]any{
		"expirationDateTime":    in(time.Hour),
		"encryptionCertificate": certificate(t, newRSA(t, 2048)), "encryptionCertificateId": "new",
	})
	if status != 200 || body["encryptionCertificateId"] != "new" {
		t.Errorf("rotation: %d %v", status, body)
	}
}

func TestGoneIs404Everywhere(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	gone := map[string]func(id string){
		"deleted": func(id string) {
			if status, _ := w.graph(http.MethodDelete, "/"+id, nil); status != http.StatusNoContent {
				t.Errorf("delete: %d", status)
			}
		},
		"removed": func(id string) { check(t, w.sim.Remove(id, false)) },
		"expired": func(id string) { check(t, w.sim.Expire(id)) },
		"another application's": func(string) {
			w.token = w.signIn(tenant, "00000000-0000-4000-8000-000000000001")
		},
	}
	for name, end := range gone {
		id := w.create(nil)
		token := w.token
		end(id)
		for _, call := range []struct {
			method, path string
			body         any
		}{
			{http.MethodGet, "", nil},
			{http.MethodPatch, "", map[string]any{"expirationDateTime": in(time.Hour)}},
			{http.MethodPost, "/reauthorize", nil},
			{http.MethodDelete, "", nil},
		} {
			status, body := w.graph(call.method, "/"+id+call.path, call.body)
			t.Log(name, call.method)
			w.refused(status, body, 404, "ResourceNotFound", "")
		}
		w.token = token
	}
	if c := w.sim.Counts(); c.Deleted != 1 || c.Removed != 1 || c.Expired != 1 || c.Live != 1 {
		t.Errorf("counts %+v", c)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReauthorize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		id := w.create(map[string]any{"expirationDateTime": in(3 * time.Hour)})
		_, before := w.graph(http.MethodGet, "/"+id, nil)
		if status, body := w.graph(http.MethodPost, "/"+id+"/reauthorize", nil); status != http.StatusNoContent {
			t.Fatalf("reauthorize: %d %v", status, body)
		}
		if status, _ := w.graph(http.MethodPost, "/"+id+"/reauthorize", map[string]any{"x": 1}); status != 400 {
			t.Errorf("reauthorize with a body: %d", status)
		}
		_, after := w.graph(http.MethodGet, "/"+id, nil)
		if before["expirationDateTime"] != after["expirationDateTime"] {
			t.Error("reauthorize moved the expiry")
		}
		patch := map[string]any{"expirationDateTime": in(3 * time.Hour)}
		time.Sleep(9 * time.Minute)
		w.graph(http.MethodPatch, "/"+id, patch)
		time.Sleep(11 * time.Minute)
		w.graph(http.MethodPatch, "/"+id, patch)
		if c := w.sim.Counts(); c.Reauthorized != 1 || c.Renewed != 2 || c.Overlaps != 1 {
			t.Errorf("counts %+v, want 1 overlap", c)
		}
	})
}

func TestExpiryOverDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{TokenLifetime: 30 * 24 * time.Hour})
		short := w.create(map[string]any{"expirationDateTime": in(24 * time.Hour)})
		long := w.create(map[string]any{"resource": "users", "changeType": "updated", "expirationDateTime": in(29 * 24 * time.Hour)})
		time.Sleep(24*time.Hour - time.Second)
		if status, _ := w.graph(http.MethodGet, "/"+short, nil); status != 200 {
			t.Errorf("a second before its end: %d", status)
		}
		time.Sleep(time.Second)
		status, body := w.graph(http.MethodPatch, "/"+short, map[string]any{"expirationDateTime": in(time.Hour)})
		w.refused(status, body, 404, "ResourceNotFound", "")
		if status, _ := w.graph(http.MethodGet, "/"+long, nil); status != 200 {
			t.Errorf("the long one: %d", status)
		}
		time.Sleep(28 * 24 * time.Hour)
		if c := w.sim.Counts(); c.Expired != 2 || c.Live != 0 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestClockOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{TokenLifetime: 100 * time.Hour})
		id := w.create(map[string]any{"expirationDateTime": in(2 * time.Hour)})
		w.sim.SetClockOffset(time.Hour)
		resp := w.raw(w.request(http.MethodGet, "https://graph.test/v1.0/subscriptions/"+id, ""))
		date, err := http.ParseTime(resp.header.Get("Date"))
		if ahead := time.Until(date); err != nil || ahead < time.Hour-time.Second || ahead > time.Hour {
			t.Errorf("Date %v (%v)", date, err)
		}
		w.sim.SetClockOffset(2 * time.Hour)
		if c := w.sim.Counts(); c.Expired != 1 {
			t.Errorf("counts %+v", c)
		}
		w.sim.SetClockOffset(-time.Hour)
		status, body := w.graph(http.MethodGet, "", nil)
		w.refused(status, body, 401, "InvalidAuthenticationToken", "")
	})
}

func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{Budgets: graphsim.Budgets{ListsPerAppTenant: 2, WritesPerApp: 3}})
		list := func() reply {
			return w.raw(w.request(http.MethodGet, "https://graph.test/v1.0/subscriptions", ""))
		}
		list()
		time.Sleep(5500 * time.Millisecond)
		list()
		resp := list()
		if resp.status != http.StatusTooManyRequests || resp.header.Get("Retry-After") != "20" {
			t.Errorf("third list: %d, Retry-After %q", resp.status, resp.header.Get("Retry-After"))
		}
		// The refused call counts too: room comes as the second call ages out.
		time.Sleep(15 * time.Second)
		if resp := list(); resp.status != http.StatusTooManyRequests {
			t.Errorf("after 15s: %d", resp.status)
		}
		time.Sleep(20 * time.Second)
		if resp := list(); resp.status != http.StatusOK {
			t.Errorf("after a quiet window: %d", resp.status)
		}
		for range 3 {
			w.create(nil)
		}
		w.token = w.signIn("00000000-0000-4000-8000-00000000000a", app)
		status, body := w.graph(http.MethodPost, "", with(nil))
		w.refused(status, body, 429, "TooManyRequests", "Please retry again later.")
		if c := w.sim.Counts(); c.Throttled != 3 || c.Created != 3 {
			t.Errorf("counts %+v", c)
		}
	})
	w := newWorld(t, graphsim.Config{Budgets: graphsim.Budgets{ListsPerApp: 1}, OmitRetryAfter: true})
	w.graph(http.MethodGet, "", nil)
	resp := w.raw(w.request(http.MethodGet, "https://graph.test/v1.0/subscriptions", ""))
	if resp.status != 429 || resp.header.Values("Retry-After") != nil {
		t.Errorf("%d %v", resp.status, resp.header)
	}
}

func TestOddPaths(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{http.MethodPut, "/v1.0/subscriptions", 405},
		{http.MethodPost, "/v1.0/subscriptions/x", 405},
		{http.MethodGet, "/v1.0/subscriptions/x/y", 400},
		{http.MethodGet, "/v1.0/users", 400},
		{http.MethodGet, "/beta/subscriptions", 400},
	} {
		if status, body := w.send(w.request(c.method, "https://graph.test"+c.path, "")); status != c.status {
			t.Errorf("%s %s: %d %v, want %d", c.method, c.path, status, body, c.status)
		}
	}
}
