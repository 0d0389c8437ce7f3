package msgraph_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/graph/msgraph"
)

// serve runs f on a real TLS listener and gives a client's configuration
// with a transport of its own that trusts it.
func serve(t *testing.T, f *fake) msgraph.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(f)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	cfg := f.config()
	cfg.Transport, cfg.GraphURL, cfg.LoginURL = nil, server.URL, server.URL
	cfg.Roots = x509.NewCertPool()
	cfg.Roots.AddCert(server.Certificate())
	return cfg
}

func gone() reply {
	return reply{status: http.StatusNotFound, body: envelope("ResourceNotFound", "")}
}

func TestTokensOverTLSAreOfTheirTenant(t *testing.T) {
	f := newFake(gone(), gone(), gone(), gone())
	client := newClient(t, serve(t, f))
	for _, tenant := range []string{tenantOne, tenantTwo, tenantOne, strings.ToUpper(tenantTwo)} {
		if err := client.Tenant(tenant).Delete(t.Context(), idOne); !errors.Is(err, graph.ErrSubscriptionGone) {
			t.Fatal(err)
		}
	}
	if want := []string{tenantOne, tenantTwo}; !slices.Equal(f.tokens, want) {
		t.Errorf("tokens were asked for %v, want one for each of %v", f.tokens, want)
	}
	for i, want := range []string{tenantOne, tenantTwo, tenantOne, tenantTwo} {
		if got := claimsOf(t, f.requests()[i]).Tenant; got != want {
			t.Errorf("call %d carried the token of %s, want %s", i, got, want)
		}
	}
	for _, sent := range f.requests() {
		if got := sent.header.Get("Accept-Encoding"); got != "" {
			t.Errorf("Accept-Encoding = %q", got)
		}
	}
	for _, scope := range f.scopes {
		if !strings.Contains(scope, "https://graph.microsoft.com/.default") {
			t.Errorf("scope %q", scope)
		}
	}
}

func TestConcurrentCallsShareOneToken(t *testing.T) {
	f := newFake()
	for range 20 {
		f.script = append(f.script, gone())
	}
	tenant := newClient(t, serve(t, f)).Tenant(tenantOne)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if err := tenant.Delete(t.Context(), idOne); !errors.Is(err, graph.ErrSubscriptionGone) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if f.tokenRequests() != 1 {
		t.Errorf("%d token requests", f.tokenRequests())
	}
}

func TestUntrustedAuthority(t *testing.T) {
	for _, warm := range []bool{false, true} {
		f := newFake()
		cfg := serve(t, f)
		if warm { // The login is fine, Graph is not.
			other := httptest.NewUnstartedServer(f)
			other.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
			other.StartTLS()
			t.Cleanup(other.Close)
			cfg.GraphURL = other.URL
		} else {
			cfg.Roots = x509.NewCertPool()
		}
		err := newClient(t, cfg).Tenant(tenantOne).Delete(t.Context(), idOne)
		fault := faultOf(t, err)
		if fault.Status != 0 || graph.Classify(err) != graph.ReasonTransient || !strings.Contains(err.Error(), "endpoints.caFile") {
			t.Errorf("login works: %v, got %v", warm, err)
		}
	}
}

func TestUnreachableLogin(t *testing.T) {
	f := newFake()
	cfg := serve(t, f)
	closed := httptest.NewTLSServer(f)
	closed.Close()
	cfg.LoginURL = closed.URL
	err := newClient(t, cfg).Tenant(tenantOne).Delete(t.Context(), idOne)
	if faultOf(t, err).Status != 0 || graph.Classify(err) != graph.ReasonTransient ||
		!strings.Contains(err.Error(), "check that the login host can be reached") {
		t.Errorf("got %v", err)
	}
}

func TestRefusedTokens(t *testing.T) {
	entra := func(code, description, number string) string {
		return `{"error":"` + code + `","error_description":"` + description + ` Trace ID: t Correlation ID: c Timestamp: x","error_codes":[` + number + `],"trace_id":"trace-1"}`
	}
	tests := map[string]struct {
		answer  reply
		status  int
		reason  graph.Reason
		message string
	}{
		"bad secret": {
			reply{status: 401, body: entra("invalid_client", "AADSTS7000215: Invalid client secret provided: "+secret+".", "7000215")},
			401, graph.ReasonUnauthorized, "not its id",
		},
		"expired secret": {
			reply{status: 401, body: entra("invalid_client", "AADSTS7000222: The provided client secret keys are expired.", "7000222")},
			401, graph.ReasonUnauthorized, "make a new one",
		},
		"no consent": {
			reply{status: 400, body: entra("unauthorized_client", "AADSTS700016: Application was not found in the directory.", "700016")},
			401, graph.ReasonUnauthorized, "admin consent",
		},
		"unknown tenant": {
			reply{status: 400, body: entra("invalid_request", "AADSTS90002: Tenant not found.", "90002")},
			401, graph.ReasonUnauthorized, "check tenantID",
		},
		"clock": {
			reply{status: 401, body: entra("invalid_client", "AADSTS700024: Client assertion is not within its valid time range.", "700024")},
			401, graph.ReasonUnauthorized, "check the clock",
		},
		"number in the text only": {
			reply{status: 400, body: `{"error":"invalid_resource","error_description":"AADSTS500011: The resource principal was not found."}`},
			401, graph.ReasonUnauthorized, "check cloud",
		},
		"throttled": {
			reply{status: 429, body: entra("temporarily_unavailable", "AADSTS90055: Too many requests.", "90055"), header: map[string]string{"Retry-After": "7"}},
			429, graph.ReasonThrottled, "AADSTS90055",
		},
		"out of order": {
			reply{status: 503, body: entra("temporarily_unavailable", "AADSTS90033: A transient error has occurred.", "90033")},
			503, graph.ReasonTransient, "AADSTS90033",
		},
		"a proxy's page": {
			reply{status: 403, body: "<html>blocked " + secret + "</html>"},
			0, graph.ReasonTransient, "not Entra's",
		},
		"a proxy's page with 200": {
			reply{status: 200, body: "<html>blocked " + secret + "</html>"},
			0, graph.ReasonTransient, "no token",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake(gone())
			f.refuse = func(string, int) *reply { return &test.answer }
			err := newClient(t, serve(t, f)).Tenant(tenantOne).Delete(t.Context(), idOne)
			fault := faultOf(t, err)
			if fault.Status != test.status || graph.Classify(err) != test.reason || fault.Operation != graph.OperationDelete {
				t.Errorf("got %+v, reason %q", fault, graph.Classify(err))
			}
			if !strings.Contains(err.Error(), test.message) || strings.Contains(err.Error(), secret) || strings.Contains(fault.Message, secret) {
				t.Errorf("text %q, want %q and no secret", err, test.message)
			}
			if test.status == 429 && fault.RetryAfter != 7*time.Second {
				t.Errorf("RetryAfter = %v", fault.RetryAfter)
			}
			if n := f.tokenRequests(); n != 1 {
				t.Errorf("%d token requests", n)
			}
			if len(f.requests()) != 0 {
				t.Error("Graph was called without a token")
			}
		})
	}
}

func TestUnknownTenantAtDiscovery(t *testing.T) {
	cfg := newFake().config()
	cfg.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
		recorder := httptest.NewRecorder()
		recorder.Header().Set("Content-Type", "application/json")
		recorder.WriteHeader(http.StatusBadRequest)
		_, err := recorder.WriteString(`{"error":"invalid_tenant","error_description":"AADSTS90002: Tenant not found.","error_codes":[90002]}`)
		return recorder.Result(), err
	})
	err := newClient(t, cfg).Tenant(tenantOne).Delete(t.Context(), idOne)
	if faultOf(t, err).Status != 401 || !strings.Contains(err.Error(), "check tenantID") {
		t.Errorf("got %v", err)
	}
}

func TestAnEndlessTokenAnswerIsCutOff(t *testing.T) {
	f := newFake(gone())
	f.refuse = func(string, int) *reply {
		return &reply{status: 200, body: `{"expires_in":3600,"access_token":"` + strings.Repeat("x", 1<<20) + `"}`}
	}
	err := f.tenant(t).Delete(t.Context(), idOne)
	if faultOf(t, err).Status != 0 || graph.Classify(err) != graph.ReasonTransient || len(f.requests()) != 0 {
		t.Errorf("got %v after %d requests", err, len(f.requests()))
	}
}

func TestARotatedSecretIsReadAgain(t *testing.T) {
	f := newFake(gone())
	refused := true
	f.refuse = func(string, int) *reply {
		if refused {
			return &reply{status: 401, body: `{"error":"invalid_client","error_description":"AADSTS7000222: expired"}`}
		}
		return nil
	}
	cfg, reads := f.config(), 0
	cfg.Credential.ClientSecret = func() (string, error) { reads++; return secret, nil }
	tenant := newClient(t, cfg).Tenant(tenantOne)
	if err := tenant.Delete(t.Context(), idOne); graph.Classify(err) != graph.ReasonUnauthorized {
		t.Fatal(err)
	}
	refused = false
	if err := tenant.Delete(t.Context(), idOne); !errors.Is(err, graph.ErrSubscriptionGone) || reads != 2 {
		t.Errorf("read %d times, %v", reads, err)
	}
}

func TestUnreadableCredentials(t *testing.T) {
	for name, credential := range map[string]msgraph.Credential{
		"secret":      {ClientSecret: func() (string, error) { return "", errors.New("no such mount") }},
		"certificate": {ClientCertificate: func() ([]byte, string, error) { return nil, "", errors.New("no such mount") }},
		"garbage":     {ClientCertificate: func() ([]byte, string, error) { return []byte("garbage"), "", nil }},
		"no webhook":  {WorkloadIdentity: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			cfg := f.config()
			cfg.Credential = credential
			err := newClient(t, cfg).Tenant(tenantOne).Delete(t.Context(), idOne)
			if faultOf(t, err).Status != 401 || !strings.Contains(err.Error(), "check the credential") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDelegatedTokenIsRefused(t *testing.T) {
	f := newFake(gone())
	f.claims = map[string]any{"scp": "Mail.Read User.Read"}
	err := f.tenant(t).Delete(t.Context(), idOne)
	if faultOf(t, err).Status != 403 || graph.Classify(err) != graph.ReasonForbidden ||
		!strings.Contains(err.Error(), "application permissions") || len(f.requests()) != 0 {
		t.Errorf("got %v after %d requests", err, len(f.requests()))
	}
}

func TestTokenOfAnotherTenantIsRefused(t *testing.T) {
	f := newFake(gone())
	f.claims = map[string]any{"tid": tenantTwo}
	err := f.tenant(t).Delete(t.Context(), idOne)
	if faultOf(t, err).Status != 401 || !strings.Contains(err.Error(), tenantTwo) || len(f.requests()) != 0 {
		t.Errorf("got %v after %d requests", err, len(f.requests()))
	}
}

func TestPersistent401AsksOncePerCall(t *testing.T) {
	for name, body := range map[string]string{
		"expired": envelope("InvalidAuthenticationToken", "Access token has expired."),
		"wrapped": envelope("ExtensionError", "Operation: Update; Exception: [Status Code: Unauthorized; Reason: p#S256 doesn't match.]"),
		"no body": "",
	} {
		t.Run(name, func(t *testing.T) {
			unauthorized := reply{status: 401, body: body}
			f := newFake(unauthorized, unauthorized, unauthorized)
			err := f.tenant(t).Delete(t.Context(), idOne)
			if graph.Classify(err) != graph.ReasonUnauthorized || len(f.requests()) != 2 || f.tokenRequests() != 2 {
				t.Errorf("%d requests, %d tokens, %v", len(f.requests()), f.tokenRequests(), err)
			}
		})
	}
}

func TestATokenStillGoodOutlivesTheLogin(t *testing.T) {
	f := newFake(gone(), gone())
	f.lifetime = 200 // Less than the leeway, more than the floor.
	f.refuse = func(_ string, n int) *reply {
		if n == 1 {
			return nil
		}
		return &reply{status: 503, body: "down"}
	}
	tenant := f.tenant(t)
	for range 2 {
		if err := tenant.Delete(t.Context(), idOne); !errors.Is(err, graph.ErrSubscriptionGone) {
			t.Error(err)
		}
	}
	if f.tokenRequests() != 2 {
		t.Errorf("%d token requests", f.tokenRequests())
	}
}

func TestCertificateAndWorkloadIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("federated-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
	for name, credential := range map[string]msgraph.Credential{
		"certificate":       {ClientCertificate: func() ([]byte, string, error) { return rsaPEM(t), "", nil }},
		"workload identity": {WorkloadIdentity: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(gone(), gone())
			cfg := f.config()
			cfg.Credential = credential
			client := newClient(t, cfg)
			for _, tenant := range []string{tenantOne, tenantTwo} {
				if err := client.Tenant(tenant).Delete(t.Context(), idOne); !errors.Is(err, graph.ErrSubscriptionGone) {
					t.Error(err)
				}
			}
			if want := []string{tenantOne, tenantTwo}; !slices.Equal(f.tokens, want) {
				t.Errorf("tokens of %v, want %v", f.tokens, want)
			}
		})
	}
}

func TestManagedIdentityIsAskedAnewAfterA401(t *testing.T) {
	f := newFake(reply{status: 401, body: envelope("InvalidAuthenticationToken", "")}, gone(), gone())
	cfg := f.config()
	cfg.ClientID = ""
	identity := rand.Text() // The cache is the process's: a second run must not find this one's token.
	cfg.Credential = msgraph.Credential{ManagedIdentity: &msgraph.ManagedIdentity{ClientID: identity}}
	asked := 0
	cfg.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if !strings.HasPrefix(r.URL.Path, "/metadata/identity/oauth2/token") {
			return f.RoundTrip(r)
		}
		asked++
		recorder := httptest.NewRecorder()
		recorder.Header().Set("Content-Type", "application/json")
		_, err := recorder.WriteString(`{"access_token":"` + jwt(map[string]any{"tid": tenantOne, "n": asked}) + `","expires_in":"86400","token_type":"Bearer","resource":"` + r.URL.Query().Get("resource") + `"}`)
		response := recorder.Result()
		response.Request = r
		return response, err
	})
	tenant := newClient(t, cfg).Tenant(tenantOne)
	for range 2 {
		if err := tenant.Delete(t.Context(), idOne); !errors.Is(err, graph.ErrSubscriptionGone) {
			t.Fatal(err)
		}
	}
	if asked != 2 {
		t.Errorf("the identity was asked %d times, want 2", asked)
	}
	for i, want := range []int{1, 2, 2} {
		if got := claimsOf(t, f.requests()[i]).N; got != want {
			t.Errorf("call %d carried token %d, want %d", i, got, want)
		}
	}
}

func TestACallWaitsForAnothersLoginOnlyAsLongAsItMay(t *testing.T) {
	f := newFake()
	cfg := f.config()
	hanging := make(chan struct{})
	cfg.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		close(hanging)
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	tenant := newClient(t, cfg).Tenant(tenantOne)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = tenant.Delete(ctx, idOne) })
	<-hanging
	ended, end := context.WithCancelCause(t.Context())
	end(graph.ErrLeaseLost)
	if err := tenant.Delete(ended, idOne); !errors.Is(err, graph.ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	cancel()
	group.Wait()
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{certify(t, key.Public(), key)}, PrivateKey: key}
}

func rsaPEM(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	certificate := certify(t, key.Public(), key)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})...)
}

func certify(t *testing.T, public, private any) []byte {
	t.Helper()
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "graphsubd"}, DNSNames: []string{"example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
