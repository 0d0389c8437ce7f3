package msgraph_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

func wanted() graph.Subscription {
	return graph.Subscription{
		Resource:                 "users/u1/messages?$filter=subject eq 'let''s \"go\" & more'&$select=id",
		ChangeTypes:              []graph.ChangeType{graph.Updated, graph.Created},
		NotificationURL:          "https://hooks.invalid/notifications/a/g/mac",
		LifecycleNotificationURL: "https://hooks.invalid/lifecycle/a/g/mac",
		ClientState:              "state-one",
		ExpiresAt:                time.Date(2030, 3, 5, 4, 5, 6, 7_000_000, time.UTC),
		ImmutableIDs:             true,
	}
}

func TestCreateOnTheWire(t *testing.T) {
	f := newFake(reply{status: http.StatusCreated, body: granted(idOne, "2030-03-05T04:05:06.1234567Z")})
	got, err := f.tenant(t).Create(t.Context(), wanted())
	if err != nil {
		t.Fatal(err)
	}
	want := graph.Subscription{
		ID: idOne, ApplicationID: clientID, Resource: "users/u1/messages",
		ChangeTypes:              []graph.ChangeType{graph.Created, graph.Updated},
		NotificationURL:          "https://hooks.invalid/notifications/a/g/mac",
		LifecycleNotificationURL: "https://hooks.invalid/lifecycle/a/g/mac",
		ClientState:              "state-one",
		ExpiresAt:                time.Date(2030, 3, 5, 4, 5, 6, 123_456_700, time.UTC),
		ImmutableIDs:             true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("granted\n%+v, want\n%+v", got, want)
	}
	sent := f.requests()[0]
	if sent.method != http.MethodPost || sent.host != "graph.invalid" || sent.uri != "/v1.0/subscriptions" {
		t.Errorf("sent %s %s%s", sent.method, sent.host, sent.uri)
	}
	for key, want := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json",
		"Prefer": `IdType="ImmutableId"`, "Content-Encoding": "",
	} {
		if got := sent.header.Get(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if id := sent.header.Get("Client-Request-Id"); !regexp.MustCompile(`^7\.pod-a\.[0-9a-f-]{36}$`).MatchString(id) {
		t.Errorf("client-request-id = %q", id)
	}
	assertBody(t, sent.body, map[string]string{
		"changeType": "created,updated", "resource": wanted().Resource, "clientState": "state-one",
		"notificationUrl":          wanted().NotificationURL,
		"lifecycleNotificationUrl": wanted().LifecycleNotificationURL,
		"expirationDateTime":       "2030-03-05T04:05:06Z",
	})
}

// assertBody wants exactly these properties, none of them null.
func assertBody(t *testing.T, body string, want map[string]string) {
	t.Helper()
	got := map[string]any{}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	wantAny := map[string]any{}
	for name, value := range want {
		wantAny[name] = value
	}
	if !reflect.DeepEqual(got, wantAny) {
		t.Errorf("body\n%v, want\n%v", got, wantAny)
	}
}

func TestCreateSendsOnlyWhatIsSet(t *testing.T) {
	f := newFake(reply{status: http.StatusCreated, body: granted(idOne, "2030-03-05T04:05:06Z")})
	s := wanted()
	s.ClientState, s.LifecycleNotificationURL, s.ImmutableIDs = "", "", false
	if _, err := f.tenant(t).Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	sent := f.requests()[0]
	if sent.header.Get("Prefer") != "" {
		t.Errorf("Prefer = %q", sent.header.Get("Prefer"))
	}
	assertBody(t, sent.body, map[string]string{
		"changeType": "created,updated", "resource": s.Resource,
		"notificationUrl": s.NotificationURL, "expirationDateTime": "2030-03-05T04:05:06Z",
	})
}

func TestRenewOnTheWire(t *testing.T) {
	f := newFake(reply{status: http.StatusOK, body: granted("a/b?c", "2030-03-05T04:05:06Z")})
	got, err := f.tenant(t).Renew(t.Context(), "a/b?c", graph.Renewal{ExpiresAt: wanted().ExpiresAt})
	if err != nil {
		t.Fatal(err)
	}
	if got.ClientState != "" {
		t.Error("the clientState was read back")
	}
	sent := f.requests()[0]
	if sent.method != http.MethodPatch || sent.uri != "/v1.0/subscriptions/a%2Fb%3Fc" {
		t.Errorf("sent %s %s", sent.method, sent.uri)
	}
	assertBody(t, sent.body, map[string]string{"expirationDateTime": "2030-03-05T04:05:06Z"})
}

func TestCallsWithoutABody(t *testing.T) {
	f := newFake(
		reply{status: http.StatusOK, body: granted(idOne, "2030-03-05T04:05:06Z")},
		reply{status: http.StatusNoContent},
		reply{status: http.StatusNoContent},
	)
	tenant := f.tenant(t)
	if s, err := tenant.Get(t.Context(), idOne); err != nil || s.ID != idOne || s.ClientState != "" {
		t.Errorf("get: %+v, %v", s, err)
	}
	if err := tenant.Delete(t.Context(), idOne); err != nil {
		t.Error(err)
	}
	if err := tenant.Reauthorize(t.Context(), idOne); err != nil {
		t.Error(err)
	}
	var got []string
	for _, sent := range f.requests() {
		got = append(got, sent.method+" "+sent.uri+" "+sent.body)
		stamped := strings.HasPrefix(sent.header.Get("Client-Request-Id"), "7.pod-a.")
		if stamped == (sent.method == http.MethodGet) {
			t.Errorf("%s has client-request-id %q", sent.method, sent.header.Get("Client-Request-Id"))
		}
	}
	want := []string{
		"GET /v1.0/subscriptions/" + idOne + " ",
		"DELETE /v1.0/subscriptions/" + idOne + " ",
		"POST /v1.0/subscriptions/" + idOne + "/reauthorize ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestAnIDThatWouldAddressTheCollectionIsNotSent(t *testing.T) {
	f := newFake()
	for _, id := range []string{"", ".", ".."} {
		if err := f.tenant(t).Delete(t.Context(), id); err == nil {
			t.Errorf("Delete(%q) succeeded", id)
		}
	}
	if len(f.requests()) != 0 {
		t.Error("a request was sent")
	}
}

func TestAnswersThatAreNotToBeBelieved(t *testing.T) {
	for name, answer := range map[string]reply{
		"empty":         {status: http.StatusCreated},
		"HTML":          {status: http.StatusOK, body: "<html>Sign in</html>", header: map[string]string{"Content-Type": "text/html"}},
		"no content":    {status: http.StatusNoContent},
		"null":          {status: http.StatusCreated, body: "null"},
		"a list":        {status: http.StatusCreated, body: "[]"},
		"no id":         {status: http.StatusCreated, body: `{"expirationDateTime":"2030-03-05T04:05:06Z"}`},
		"no expiry":     {status: http.StatusCreated, body: `{"id":"` + idOne + `"}`},
		"bad expiry":    {status: http.StatusCreated, body: granted(idOne, "NA")},
		"a number":      {status: http.StatusCreated, body: `{"id":7}`},
		"too long":      {status: http.StatusCreated, body: `{"id":"` + strings.Repeat("x", 1<<20) + `"}`},
		"cut off":       {status: http.StatusCreated, body: granted(idOne, "2030-03-05T04:05:06Z")[:80]},
		"another place": {status: http.StatusFound, header: map[string]string{"Location": "https://elsewhere.invalid/"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(answer)
			_, err := f.tenant(t).Create(t.Context(), wanted())
			fault := faultOf(t, err)
			if answer.status == http.StatusFound {
				if fault.Status != http.StatusFound || len(f.requests()) != 1 {
					t.Errorf("a redirect gave %v after %d requests", fault, len(f.requests()))
				}
				return
			}
			if fault.Status != 0 || !fault.Ambiguous() || graph.Classify(err) != graph.ReasonTransient {
				t.Errorf("got %v: a create of unknown outcome has to be ambiguous", fault)
			}
		})
	}
}

// TestABodyThatBreaksOff: a failure keeps its status, a success is none.
func TestABodyThatBreaksOff(t *testing.T) {
	for status, want := range map[int]int{http.StatusCreated: 0, http.StatusTooManyRequests: http.StatusTooManyRequests} {
		f := newFake(reply{status: status, body: granted(idOne, "2030-03-05T04:05:06Z")})
		cfg := f.config()
		cfg.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := f.RoundTrip(r)
			if err == nil && r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1.0/") {
				response.Body = io.NopCloser(io.MultiReader(io.LimitReader(response.Body, 20), iotest.ErrReader(io.ErrUnexpectedEOF)))
			}
			return response, err
		})
		_, err := newClient(t, cfg).Tenant(tenantOne).Create(t.Context(), wanted())
		if got := faultOf(t, err).Status; got != want || errors.Is(err, io.ErrUnexpectedEOF) != (want == 0) {
			t.Errorf("%d that broke off gave %v", status, err)
		}
	}
}

func TestAnswerAboutAnotherSubscription(t *testing.T) {
	f := newFake(reply{status: http.StatusOK, body: granted(idTwo, "2030-03-05T04:05:06Z")})
	if _, err := f.tenant(t).Get(t.Context(), idOne); err == nil {
		t.Error("the answer was believed")
	}
}

func TestDeleteDoesNotBelieveAPage(t *testing.T) {
	f := newFake(reply{status: http.StatusOK, body: "<html>Sign in</html>"}, reply{status: http.StatusOK})
	tenant := f.tenant(t)
	if err := tenant.Delete(t.Context(), idOne); err == nil {
		t.Error("a page passed for a deletion")
	}
	if err := tenant.Delete(t.Context(), idOne); err != nil {
		t.Error(err)
	}
}
