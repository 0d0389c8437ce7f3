package graphsim_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

func TestFaultsReplaceAnswers(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	id := w.create(nil)
	add := func(f graphsim.Fault) {
		t.Helper()
		check(t, w.sim.AddFault(f))
	}
	patch := func() reply {
		return w.raw(w.request(http.MethodPatch, "https://graph.test/v1.0/subscriptions/"+id, encode(t, map[string]any{"expirationDateTime": in(time.Hour)})))
	}
	const match = "PATCH /v1.0/subscriptions/*"

	add(graphsim.Fault{Match: match, Status: 404, Body: json.RawMessage(`"<html>gone</html>"`), Header: map[string]string{"Content-Type": "text/html"}, Times: 2})
	for range 2 {
		got := patch()
		if got.status != 404 || string(got.body) != "<html>gone</html>" || got.header.Get("Content-Type") != "text/html" {
			t.Errorf("%+v", got)
		}
	}
	if got := patch(); got.status != 200 {
		t.Errorf("after its times: %+v", got)
	}

	add(graphsim.Fault{Match: match, Status: 429, Header: map[string]string{"Retry-After": "2.128"}})
	if got := patch(); got.status != 429 || got.header.Get("Retry-After") != "2.128" {
		t.Errorf("%+v", got)
	}

	add(graphsim.Fault{Match: "GET /v1.0/subscriptions/*", Status: 403})
	add(graphsim.Fault{Match: "* /v1.0/subscriptions", Status: 503, Body: json.RawMessage(`{"error":{"code":"x","message":"y"}}`), Times: -1})
	status, body := w.graph(http.MethodGet, "/"+id, nil)
	w.refused(status, body, 403, "ExtensionError", "Operation: Create; Exception: [Status Code: Forbidden; Reason: Forbidden]")
	for range 3 {
		status, body := w.graph(http.MethodGet, "", nil)
		w.refused(status, body, 503, "x", "y")
	}
	w.sim.ClearFaults()
	if status, _ := w.graph(http.MethodGet, "", nil); status != 200 {
		t.Errorf("after clearing: %d", status)
	}
	add(graphsim.Fault{Match: "POST /*/oauth2/v2.0/token", Status: 503})
	status, body = w.postForm(tokenURL, form(nil))
	if status != 503 || body["error"] != "temporarily_unavailable" {
		t.Errorf("token service: %d %v", status, body)
	}
	if c := w.sim.Counts(); c.Renewed != 1 || c.Throttled != 1 || c.Operations["renew"][404] != 2 {
		t.Errorf("counts %+v", c)
	}
}

func TestFaultsBeforeAndAfterTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		create := func(f graphsim.Fault) (int, map[string]any) {
			t.Helper()
			f.Match = "POST /v1.0/subscriptions"
			check(t, w.sim.AddFault(f))
			return w.graph(http.MethodPost, "", with(nil))
		}
		live := func(want int) {
			t.Helper()
			if got := w.sim.Counts().Live; got != want {
				t.Errorf("%d live, want %d", got, want)
			}
		}
		create(graphsim.Fault{Status: 504, Effect: "before"})
		live(0)
		if status, _ := create(graphsim.Fault{Status: 504, Effect: "after"}); status != 504 {
			t.Errorf("after: %d", status)
		}
		live(1)
		if status, _ := create(graphsim.Fault{Drop: true}); status != 0 {
			t.Errorf("drop: %d", status)
		}
		live(1)
		create(graphsim.Fault{Drop: true, Effect: "after"})
		live(2)
		began := time.Now()
		if status, _ := create(graphsim.Fault{Delay: 7 * time.Second}); status != 201 || time.Since(began) != 7*time.Second {
			t.Errorf("delay: %d after %v", status, time.Since(began))
		}
		live(3)
		w.client.Timeout = time.Second
		if status, _ := create(graphsim.Fault{Delay: time.Minute, Effect: "after"}); status != 0 {
			t.Errorf("delay after the effect: %d", status)
		}
		live(4)
	})
}

func TestFaultsThatMeanNothingAreRefused(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	for name, f := range map[string]graphsim.Fault{
		"no method":          {Match: "/v1.0/subscriptions", Status: 500},
		"bad pattern":        {Match: "GET /v1.0/[", Status: 500},
		"odd status":         {Match: "GET /", Status: 99},
		"no effect":          {Match: "GET /"},
		"body, no status":    {Match: "GET /", Body: json.RawMessage(`""`), Delay: 1},
		"effect in no place": {Match: "GET /", Status: 500, Effect: "during"},
	} {
		if err := w.sim.AddFault(f); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestLogKeepsTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		check(t, w.sim.AddFault(graphsim.Fault{Match: "GET /v1.0/subscriptions", Delay: 3 * time.Second}))
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.graph(http.MethodGet, "", nil)
		}()
		synctest.Wait()
		req := w.request(http.MethodDelete, "https://graph.test/v1.0/subscriptions/x?secret=1", "")
		req.Header.Set("client-request-id", "term-3-pod-a")
		w.send(req)
		log := w.sim.Log(1)
		if len(log) != 2 || !log[0].Pending || log[0].Operation != "list" || log[1].Pending || log[1].Status != 404 ||
			log[1].Path != "/v1.0/subscriptions/x" || log[1].ClientRequestID != "term-3-pod-a" || log[1].N != 3 {
			t.Errorf("log %+v", log)
		}
		<-done
		if log := w.sim.Log(1); log[0].Pending || log[0].Status != 200 || len(w.sim.Log(3)) != 0 {
			t.Errorf("log %+v", log)
		}
	})
}

func TestLogIsBounded(t *testing.T) {
	w := newWorld(t, graphsim.Config{LogSize: 3})
	for range 20 {
		w.graph(http.MethodGet, "", nil)
	}
	log := w.sim.Log(0)
	if len(log) < 3 || len(log) > 6 || log[len(log)-1].N != 21 {
		t.Errorf("%d entries, the last %+v", len(log), log[len(log)-1])
	}
}
