package graphsim_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

// control calls the control API and gives status and body.
func (w *world) control(method, path, body string) (int, []byte) {
	w.t.Helper()
	got := w.raw(w.request(method, "https://control.test/sim/v1/"+path, body))
	return got.status, got.body
}

// golden compares JSON with a file in testdata, which -update rewrites.
func golden(t *testing.T, name string, raw []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, bytes.TrimSpace(raw), "", "  "); err != nil {
		t.Fatalf("%s: %v: %s", name, err, raw)
	}
	indented.WriteByte('\n')
	file := filepath.Join("testdata", name)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		check(t, os.WriteFile(file, indented.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	check(t, err)
	if !bytes.Equal(want, indented.Bytes()) {
		t.Errorf("%s has changed:\n%s", name, indented.Bytes())
	}
}

// The bubble's clock and the seed make every byte of the answers the same.
func TestControlShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{BatchSize: 1})
		id := w.create(map[string]any{"lifecycleNotificationUrl": lifeURL})
		other := w.create(map[string]any{"resource": "users/1/events"})
		w.run()
		for _, c := range []struct {
			method, path, body string
			status             int
		}{
			{http.MethodPost, "faults", `{"match":"GET /v1.0/subscriptions","status":503,"body":{"a":1},"headers":{"Retry-After":"1"},"delay":"1s","times":2}`, 204},
			{http.MethodPost, "faults", `{"match":"POST /v1.0/subscriptions","effect":"after","drop":true}`, 204},
			{http.MethodPost, "lifecycle", `{"id":"` + id + `","event":"missed"}`, 204},
			{http.MethodPost, "subscriptions/" + other + "/hide", ``, 204},
			{http.MethodPost, "subscriptions/" + other + "/hide", `{"hidden":false}`, 204},
			{http.MethodPost, "subscriptions/" + other + "/hide", `{"hidden":true}`, 204},
		} {
			if status, raw := w.control(c.method, c.path, c.body); status != c.status {
				t.Errorf("%s: %d %s", c.path, status, raw)
			}
		}
		status, raw := w.control(http.MethodPost, "notify", `{"id":"`+id+`","count":3,"changeType":"updated"}`)
		if status != 200 || string(bytes.TrimSpace(raw)) != `{"queued":3}` {
			t.Errorf("notify: %d %s", status, raw)
		}
		synctest.Wait()
		began := time.Now()
		got := w.raw(w.request(http.MethodGet, "https://graph.test/v1.0/subscriptions", ""))
		if got.status != 503 || string(got.body) != `{"a":1}` || got.header.Get("Retry-After") != "1" || time.Since(began) != time.Second {
			t.Errorf("fault: %+v", got)
		}
		status, raw = w.control(http.MethodPost, "clock", `{"offset":"30m"}`)
		golden(t, "clock.json", raw)
		if status != 200 {
			t.Errorf("clock: %d", status)
		}
		_, raw = w.control(http.MethodGet, "state", "")
		golden(t, "state.json", raw)
		_, raw = w.control(http.MethodGet, "counts", "")
		golden(t, "counts.json", raw)
		_, raw = w.control(http.MethodGet, "log?after=1", "")
		golden(t, "log.json", raw)
	})
}

func TestControlSteers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		removed, expired := w.create(map[string]any{"lifecycleNotificationUrl": lifeURL}), w.create(nil)
		w.run()
		if status, raw := w.control(http.MethodPost, "subscriptions/"+removed+"/remove", `{"lifecycle":true}`); status != 204 {
			t.Errorf("remove: %d %s", status, raw)
		}
		if status, raw := w.control(http.MethodPost, "subscriptions/"+expired+"/expire", ""); status != 204 {
			t.Errorf("expire: %d %s", status, raw)
		}
		synctest.Wait()
		if items := w.hook.items(t); len(items) != 1 || items[0]["lifecycleEvent"] != "subscriptionRemoved" {
			t.Errorf("items %v", items)
		}
		if c := w.sim.Counts(); c.Removed != 1 || c.Expired != 1 || c.Live != 0 {
			t.Errorf("counts %+v", c)
		}
		check(t, w.sim.AddFault(graphsim.Fault{Match: "GET /x", Status: 500}))
		if status, _ := w.control(http.MethodDelete, "faults", ""); status != 204 || w.sim.State().Faults != 0 {
			t.Errorf("clearing: %d, %d left", status, w.sim.State().Faults)
		}
	})
}

func TestControlRefuses(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "subscriptions/x/remove", "", 404},
		{http.MethodPost, "subscriptions/x/expire", "", 404},
		{http.MethodPost, "subscriptions/x/hide", "", 404},
		{http.MethodPost, "notify", `{"id":"x"}`, 404},
		{http.MethodPost, "notify", `{"count":-1}`, 400},
		{http.MethodPost, "lifecycle", `{"id":"x","event":"missed"}`, 404},
		{http.MethodPost, "lifecycle", `{"id":"x","event":"other"}`, 400},
		{http.MethodPost, "faults", `{"match":"nothing"}`, 400},
		{http.MethodPost, "faults", `{"unknown":1}`, 400},
		{http.MethodPost, "faults", `{"match":"GET /x","delay":"soon"}`, 400},
		{http.MethodPost, "clock", `{"offset":5}`, 400},
		{http.MethodGet, "log?after=x", "", 400},
	} {
		status, raw := w.control(c.method, c.path, c.body)
		var body struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal(raw, &body); err != nil || status != c.status || body.Error == "" {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, raw)
		}
	}
	if status, _ := w.control(http.MethodGet, "nothing", ""); status != 404 {
		t.Errorf("unknown path: %d", status)
	}
	if status, _ := w.control(http.MethodGet, "faults", ""); status != 405 {
		t.Errorf("wrong method: %d", status)
	}
}
