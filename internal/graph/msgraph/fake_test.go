package msgraph_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
)

const (
	tenantOne = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
	tenantTwo = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
	clientID  = "cccccccc-cccc-4ccc-8ccc-cccccccccccc"
	idOne     = "11111111-1111-4111-8111-111111111111"
	idTwo     = "22222222-2222-4222-8222-222222222222"
	secret    = "s3cr3t~of-the-app"
	fakeGraph = "https://graph.invalid"
	fakeLogin = "https://login.invalid"
)

// reply is a scripted answer of Graph.
type reply struct {
	status int
	header map[string]string
	body   string
	before func(*http.Request) // runs before the answer, nil does nothing
}

// seen is one request as it came.
type seen struct {
	method, host, uri, body string
	header                  http.Header
}

// fake is Graph and its login in one handler. Graph answers from a script and
// with 500 beyond it; the login issues numbered tokens.
type fake struct {
	mu       sync.Mutex
	script   []reply
	graph    []seen          // requests to Graph
	tokens   []string        // tenants that a token was asked for
	scopes   []string        // and the scopes
	hosts    map[string]bool // of the login
	refuse   func(tenant string, n int) *reply
	claims   map[string]any // further claims of a token
	lifetime int            // of tokens in seconds
}

func newFake(script ...reply) *fake {
	return &fake{script: script, lifetime: 3600, hosts: map[string]bool{}}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v1.0/") {
		f.serveGraph(w, r)
		return
	}
	f.serveLogin(w, r)
}

func (f *fake) serveGraph(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.graph = append(f.graph, seen{r.Method, r.Host, r.URL.RequestURI(), string(body), r.Header.Clone()})
	answer := reply{status: http.StatusInternalServerError}
	if len(f.script) > 0 {
		answer, f.script = f.script[0], f.script[1:]
	}
	f.mu.Unlock()
	if answer.before != nil {
		answer.before(r)
	}
	if answer.body != "" {
		w.Header().Set("Content-Type", "application/json")
	}
	for key, value := range answer.header {
		w.Header().Set(key, value)
	}
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.body)
}

func (f *fake) serveLogin(w http.ResponseWriter, r *http.Request) {
	tenant, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	base := "https://" + r.Host + "/" + tenant
	w.Header().Set("Content-Type", "application/json")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[r.Host] = true
	switch path {
	case "discovery/instance":
		_, _ = fmt.Fprintf(w, `{"tenant_discovery_endpoint":"https://%[1]s/common/v2.0/.well-known/openid-configuration",`+
			`"metadata":[{"preferred_network":"%[1]s","preferred_cache":"%[1]s","aliases":["%[1]s"]}]}`, r.Host)
	case "v2.0/.well-known/openid-configuration":
		_, _ = fmt.Fprintf(w, `{"authorization_endpoint":"%[1]s/oauth2/v2.0/authorize",`+
			`"token_endpoint":"%[1]s/oauth2/v2.0/token","issuer":"%[1]s/v2.0"}`, base)
	case "oauth2/v2.0/token":
		f.issue(w, r, tenant)
	default:
		http.NotFound(w, r)
	}
}

func (f *fake) issue(w http.ResponseWriter, r *http.Request, tenant string) {
	f.tokens = append(f.tokens, tenant)
	f.scopes = append(f.scopes, r.FormValue("scope"))
	if f.refuse != nil {
		if answer := f.refuse(tenant, len(f.tokens)); answer != nil {
			for key, value := range answer.header {
				w.Header().Set(key, value)
			}
			w.WriteHeader(answer.status)
			_, _ = io.WriteString(w, answer.body)
			return
		}
	}
	claims := map[string]any{"tid": tenant, "n": len(f.tokens), "roles": []string{"Mail.Read"}}
	maps.Copy(claims, f.claims)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": jwt(claims), "token_type": "Bearer", "expires_in": f.lifetime,
	})
}

func jwt(claims map[string]any) string {
	payload, _ := json.Marshal(claims)
	return "e30." + base64.RawURLEncoding.EncodeToString(payload) + ".c2ln"
}

// claims are those that tests look at.
type claims struct {
	Tenant string `json:"tid"`
	N      int    `json:"n"`
}

// claimsOf reads the token of a request to Graph.
func claimsOf(t *testing.T, s seen) claims {
	t.Helper()
	parts := strings.Split(strings.TrimPrefix(s.header.Get("Authorization"), "Bearer "), ".")
	if len(parts) != 3 {
		t.Fatalf("no token in %q", s.header.Get("Authorization"))
	}
	var read claims
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(payload, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func (f *fake) requests() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.graph...)
}

func (f *fake) tokenRequests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tokens)
}

// RoundTrip calls the handler in process. As a real transport does, it gives
// up when the context of the request ends; handlers return then as well.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.Host = r.URL.Host
	recorder := httptest.NewRecorder()
	f.ServeHTTP(recorder, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	response := recorder.Result()
	response.Request = r
	return response, nil
}

// config is that of a client which talks to f in process.
func (f *fake) config() msgraph.Config {
	return msgraph.Config{
		Cloud: msgraph.CloudGlobal, GraphURL: fakeGraph, LoginURL: fakeLogin, ClientID: clientID,
		Credential: msgraph.Credential{ClientSecret: func() (string, error) { return secret, nil }},
		Transport:  f,
		Stamp:      func() string { return "7.pod/a" },
		Scale:      1000, // so that no listing has to wait outside of a bubble
	}
}

func newClient(t *testing.T, cfg msgraph.Config) *msgraph.Client {
	t.Helper()
	client, err := msgraph.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// tenant gives tenantOne of a client that talks to f in process.
func (f *fake) tenant(t *testing.T) *msgraph.Tenant {
	t.Helper()
	return newClient(t, f.config()).Tenant(tenantOne)
}

// granted is a subscription as Graph answers with it.
func granted(id, expires string) string {
	return fmt.Sprintf(`{"@odata.context":"https://graph.microsoft.com/v1.0/$metadata#subscriptions/$entity",`+
		`"id":%q,"resource":"users/u1/messages","applicationId":%q,"changeType":"updated,created",`+
		`"clientState":"echoed-by-graph","notificationUrl":"https://hooks.invalid/notifications/a/g/mac",`+
		`"lifecycleNotificationUrl":"https://hooks.invalid/lifecycle/a/g/mac","expirationDateTime":%q,`+
		`"creatorId":"dddddddd-dddd-4ddd-8ddd-dddddddddddd","latestSupportedTlsVersion":"v1_2",`+
		`"notificationContentType":"application/json","includeResourceData":null}`, id, clientID, expires)
}

func envelope(code, message string) string {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{
		"code": code, "message": message,
		"innerError": map[string]any{"date": "2030-01-02T03:04:05", "request-id": "r1", "client-request-id": "c1"},
	}})
	return string(body)
}

// faultOf asserts that err is a *graph.Error and gives it.
func faultOf(t *testing.T, err error) *graph.Error {
	t.Helper()
	fault, ok := err.(*graph.Error) //nolint:errorlint // It has to be the error itself.
	if !ok {
		t.Fatalf("error is %T (%v), not a *graph.Error", err, err)
	}
	return fault
}
