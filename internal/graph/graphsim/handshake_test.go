package graphsim_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

func TestHandshakeFailures(t *testing.T) {
	const (
		unreachable = "Subscription validation request failed. Notification endpoint must respond with 200 OK to validation request."
		forbidden   = "Subscription validation request failed. HTTP status code is 'Forbidden'. " +
			"Notification endpoint must respond with 200 OK to validation request."
		accepted = "Subscription validation request failed. HTTP status code is 'Accepted'. " +
			"Notification endpoint must respond with 200 OK to validation request."
		found = "Subscription validation request failed. HTTP status code is 'Found'. " +
			"Notification endpoint must respond with 200 OK to validation request."
		mismatch = "Subscription validation request failed. Response must exactly match validationToken query parameter."
		timeout  = "Subscription validation request timed out."
	)
	say := func(contentType string, body func(token string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, body(r.URL.Query().Get("validationToken")))
		}
	}
	same := func(token string) string { return token }
	cases := map[string]struct {
		endpoint      http.HandlerFunc
		code, message string
	}{
		"no connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "ValidationError", unreachable},
		"403":           {status(http.StatusForbidden), "ValidationError", forbidden},
		"202":           {status(http.StatusAccepted), "ValidationError", accepted},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://hooks.test/other", http.StatusFound)
		}, "ValidationError", found},
		"html":       {say("text/html", same), "InvalidRequest", mismatch},
		"no type":    {say("", same), "InvalidRequest", mismatch},
		"other body": {say("text/plain", func(string) string { return "ok" }), "InvalidRequest", mismatch},
		"new line":   {say("text/plain", func(token string) string { return token + "\n" }), "InvalidRequest", mismatch},
		"encoded": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, r.URL.RawQuery[len("validationToken="):])
		}, "InvalidRequest", mismatch},
		"slow": {func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(11 * time.Second)
			echo(w, r)
		}, "InvalidRequest", timeout},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, graphsim.Config{})
				w.hook.set(c.endpoint, nil)
				status, body := w.graph(http.MethodPost, "", with(nil))
				w.refused(status, body, 400, c.code, c.message)
				if counts := w.sim.Counts(); counts.Live != 0 || counts.HandshakesFailed != 1 || counts.Handshakes != 0 {
					t.Errorf("counts %+v", counts)
				}
			})
		})
	}
}

func TestHandshakeParameters(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	w.hook.set(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "TEXT/PLAIN")
		_, _ = io.WriteString(w, r.URL.Query().Get("validationToken"))
	}, nil)
	// Equal URLs are validated once each.
	w.create(map[string]any{"lifecycleNotificationUrl": hookURL})
	if c := w.sim.Counts(); c.Handshakes != 2 {
		t.Errorf("%d handshakes, want 2", c.Handshakes)
	}
}

func TestBothHandshakesRunAtOnceAndOneFailureIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		w.hook.set(func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(9 * time.Second)
			if len(w.sim.State().Subscriptions) != 0 {
				t.Error("the subscription exists before its handshake")
			}
			if r.URL.Path == "/lifecycle/a" {
				rw.WriteHeader(http.StatusInternalServerError)
				return
			}
			echo(rw, r)
		}, nil)
		began := time.Now()
		status, body := w.graph(http.MethodPost, "", with(map[string]any{"lifecycleNotificationUrl": lifeURL}))
		w.refused(status, body, 400, "ValidationError", "Subscription validation request failed. HTTP status code is "+
			"'InternalServerError'. Notification endpoint must respond with 200 OK to validation request.")
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("two handshakes of 9s took %v", took)
		}
		if c := w.sim.Counts(); c.Handshakes != 1 || c.HandshakesFailed != 1 {
			t.Errorf("counts %+v", c)
		}
	})
}

// A client that gives up leaves a subscription behind: its create call is
// ambiguous, as with Graph.
func TestCreateOutlivesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		w.hook.set(func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Second)
			echo(rw, r)
		}, nil)
		w.client.Timeout = time.Second
		if status, body := w.graph(http.MethodPost, "", with(nil)); status != 0 {
			t.Fatalf("got %d %v, want a time-out", status, body)
		}
		w.transport.Wait()
		if c := w.sim.Counts(); c.Live != 1 {
			t.Errorf("%d live, want 1", c.Live)
		}
	})
}
