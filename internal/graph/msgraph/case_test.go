package msgraph_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // TZ works wherever the tests run.

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
)

// TestCase holds the cases of the public reports, by their numbers, as far as
// they lie in this package.
func TestCase(t *testing.T) {
	t.Run("A45", caseA45)
	t.Run("A49", caseA49)
	t.Run("A51", caseA51)
	t.Run("A57", caseA57)
	t.Run("A66", caseA66)
	t.Run("A67", caseA67)
	t.Run("A68", caseA68)
}

// caseA45: a renewal's body is the expiry, and no body has a null.
func caseA45(t *testing.T) {
	f := newFake(
		reply{status: 201, body: granted("a b/c", "2030-03-05T04:05:06Z")},
		reply{status: 200, body: granted("a b/c", "2030-03-05T04:05:06Z")},
	)
	tenant := f.tenant(t)
	created, err := tenant.Create(t.Context(), wanted())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.Renew(t.Context(), created.ID, graph.Renewal{ExpiresAt: wanted().ExpiresAt}); err != nil {
		t.Fatal(err)
	}
	create, renew := f.requests()[0], f.requests()[1]
	for _, sent := range []seen{create, renew} {
		if strings.Contains(sent.body, "null") || strings.Contains(sent.body, "latestSupportedTlsVersion") ||
			sent.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s with %q, body %s", sent.method, sent.header.Get("Content-Type"), sent.body)
		}
	}
	if renew.body != `{"expirationDateTime":"2030-03-05T04:05:06Z"}` || renew.uri != "/v1.0/subscriptions/a%20b%2Fc" {
		t.Errorf("renewal %s %s", renew.uri, renew.body)
	}
}

// caseA49: times go out in UTC wherever the process runs, come back as UTC,
// and the complaint about a malformed one is permanent and logged.
func caseA49(t *testing.T) {
	if _, offset := time.Now().Zone(); offset != 5*3600+1800 {
		// The zone of a process is fixed at its start.
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCase$/^A49$", "-test.count=1")
		again.Env = append(again.Environ(), "TZ=Asia/Kolkata")
		if output, err := again.CombinedOutput(); err != nil {
			t.Errorf("with TZ=Asia/Kolkata: %v\n%s", err, output)
		}
		return
	}
	var logged bytes.Buffer
	f := newFake(
		reply{status: 201, body: granted(idOne, "2030-03-05T04:05:06")},
		reply{status: 200, body: granted(idOne, "2030-03-05T04:05:06.1234567")},
		reply{status: 400, body: envelope("InvalidRequest", "Could not process subscription creation payload. Are all property names spelled and camelCased properly?")},
	)
	cfg := f.config()
	cfg.Logger = slog.New(slog.NewJSONHandler(&logged, nil))
	tenant := newClient(t, cfg).Tenant(tenantOne)
	s := wanted()
	s.ExpiresAt = time.Date(2030, 3, 5, 4, 5, 6, 7_000_000, time.UTC).Local()
	created, err := tenant.Create(t.Context(), s)
	if err != nil || !created.ExpiresAt.Equal(time.Date(2030, 3, 5, 4, 5, 6, 0, time.UTC)) {
		t.Errorf("granted until %v, %v", created.ExpiresAt, err)
	}
	renewed, err := tenant.Renew(t.Context(), idOne, graph.Renewal{ExpiresAt: s.ExpiresAt})
	if err != nil || !renewed.ExpiresAt.Equal(time.Date(2030, 3, 5, 4, 5, 6, 123_456_700, time.UTC)) {
		t.Errorf("renewed until %v, %v", renewed.ExpiresAt, err)
	}
	_, err = tenant.Create(t.Context(), s)
	if graph.Classify(err) != graph.ReasonInvalid {
		t.Errorf("the complaint is %q", graph.Classify(err))
	}
	for _, sent := range f.requests() {
		var body struct {
			ExpirationDateTime string `json:"expirationDateTime"`
		}
		if err := json.Unmarshal([]byte(sent.body), &body); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?Z$`).MatchString(body.ExpirationDateTime) ||
			!strings.HasPrefix(body.ExpirationDateTime, "2030-03-05T04:05:06") {
			t.Errorf("sent %s", sent.body)
		}
	}
	if !strings.Contains(logged.String(), "2030-03-05T04:05:06Z") || strings.Contains(logged.String(), "state-one") ||
		strings.Contains(logged.String(), "/g/mac") {
		t.Errorf("logged %s", logged.String())
	}
}

// caseA51: an empty page with a link that fails is no empty listing.
func caseA51(t *testing.T) {
	next := fakeGraph + "/v1.0/subscriptions?$skiptoken=AA"
	f := newFake(page(next), reply{status: 500, body: envelope("UnknownError", "")}, page("", idOne))
	tenant := f.tenant(t)
	if all, err := tenant.List(t.Context()); err == nil || all != nil {
		t.Errorf("got %v, %v", all, err)
	}
	all, err := tenant.List(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != idOne {
		t.Errorf("got %v, %v", all, err)
	}
}

// caseA57: the resource passes byte for byte.
func caseA57(t *testing.T) {
	for _, resource := range []string{
		"/communications/presences?$filter=id in ('a1','b2')",
		"users/u1/messages?$filter=subject eq 'let''s \"go\" & more'&$select=id",
		"chats('19:x@thread.v2')/messages",
		" users/ü\u2028<%26>/messages ",
	} {
		f := newFake(reply{status: 201, body: granted(idOne, "2030-03-05T04:05:06Z")})
		s := wanted()
		s.Resource = resource
		if _, err := f.tenant(t).Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		var body struct {
			Resource string `json:"resource"`
		}
		if err := json.Unmarshal([]byte(f.requests()[0].body), &body); err != nil || body.Resource != resource {
			t.Errorf("sent %q, want %q (%v)", body.Resource, resource, err)
		}
	}
}

// caseA66: each attempt takes a token anew, and the first 401 fetches another.
func caseA66(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(
			reply{status: 503, header: map[string]string{"Retry-After": "90"}},
			reply{status: 401, body: envelope("InvalidAuthenticationToken", "Access token has expired or is not yet valid.")},
			reply{status: 200, body: granted(idOne, "2030-03-05T04:05:06Z")},
			reply{status: 401, body: envelope("InvalidAuthenticationToken", "")},
			reply{status: 401, body: envelope("InvalidAuthenticationToken", "")},
		)
		f.lifetime = 60
		tenant := f.tenant(t)
		err := perform(t.Context(), tenant, opRenew)
		fault := faultOf(t, err)
		if fault.RetryAfter != 90*time.Second || graph.Classify(err) != graph.ReasonTransient {
			t.Fatalf("got %+v", fault)
		}
		time.Sleep(fault.RetryAfter)
		if err := perform(t.Context(), tenant, opRenew); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{1, 2, 3} {
			if got := claimsOf(t, f.requests()[i]).N; got != want {
				t.Errorf("attempt %d carried token %d, want %d", i, got, want)
			}
		}
		err = perform(t.Context(), tenant, opRenew)
		if graph.Classify(err) != graph.ReasonUnauthorized || errors.Is(err, graph.ErrSubscriptionGone) || len(f.requests()) != 5 {
			t.Errorf("after the second 401: %v, %d requests", err, len(f.requests()))
		}
		for _, sent := range f.requests() {
			if sent.method != http.MethodPatch {
				t.Errorf("a 401 led to %s", sent.method)
			}
		}
	})
}

// caseA67: login host, scope and Graph's host follow from the cloud alone, a
// mixture is refused, and a create has nothing that a cloud does not know.
func caseA67(t *testing.T) {
	for cloud, want := range documented() {
		f := newFake(reply{status: 201, body: granted(idOne, "2030-03-05T04:05:06Z")})
		cfg := f.config()
		cfg.Cloud, cfg.GraphURL, cfg.LoginURL = cloud, "", ""
		if _, err := newClient(t, cfg).Tenant(tenantOne).Create(t.Context(), wanted()); err != nil {
			t.Errorf("%s: %v", cloud, err)
			continue
		}
		sent := f.requests()[0]
		if host := "https://" + sent.host; host != want.Graph {
			t.Errorf("%s: Graph at %s", cloud, host)
		}
		if !f.hosts[strings.TrimPrefix(want.Login, "https://")] || len(f.hosts) != 1 {
			t.Errorf("%s: logins at %v", cloud, f.hosts)
		}
		if !strings.Contains(f.scopes[0], want.Scope) {
			t.Errorf("%s: scope %q", cloud, f.scopes[0])
		}
		for _, property := range []string{"notificationQueryOptions", "notificationUrlAppId"} {
			if strings.Contains(sent.body, property) {
				t.Errorf("%s: sent %s", cloud, sent.body)
			}
		}
		for other, endpoints := range documented() {
			cfg.GraphURL, cfg.LoginURL = endpoints.Graph, endpoints.Login
			if _, err := msgraph.New(cfg); (err == nil) != (other == cloud) {
				t.Errorf("%s with the hosts of %s: %v", cloud, other, err)
			}
		}
	}
}

// caseA68: roles are baked into a token, so every attempt after a 401 has a
// new one.
func caseA68(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unauthorized := reply{status: 401, body: envelope("InvalidAuthenticationToken", "")}
		f := newFake(unauthorized, unauthorized, unauthorized, reply{status: 201, body: granted(idOne, "2030-03-05T04:05:06Z")})
		tenant := f.tenant(t)
		if err := perform(t.Context(), tenant, opCreate); graph.Classify(err) != graph.ReasonUnauthorized || faultOf(t, err).Ambiguous() {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := perform(t.Context(), tenant, opCreate); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{1, 2, 2, 3} {
			if got := claimsOf(t, f.requests()[i]).N; got != want {
				t.Errorf("attempt %d carried token %d, want %d", i, got, want)
			}
		}
	})
}
