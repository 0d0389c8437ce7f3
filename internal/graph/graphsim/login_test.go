package graphsim_test

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

const tokenURL = "https://login.test/" + tenant + "/oauth2/v2.0/token"

func form(changes map[string]string) url.Values {
	v := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {app}, "client_secret": {secret},
		"scope": {"https://graph.microsoft.com/.default"},
	}
	for name, value := range changes {
		v.Set(name, value)
		if value == "" {
			v.Del(name)
		}
	}
	return v
}

func TestTokenErrors(t *testing.T) {
	w := newWorld(t, graphsim.Config{
		Tenants: []string{tenant}, Clients: map[string]graphsim.Client{strings.ToUpper(app): {Secrets: []string{"old", secret}}},
	})
	cases := map[string]struct {
		tenant  string
		change  map[string]string
		status  int
		word    string
		numeric float64
	}{
		"wrong secret":   {tenant, map[string]string{"client_secret": "x"}, 401, "invalid_client", 7000215},
		"no secret":      {tenant, map[string]string{"client_secret": ""}, 401, "invalid_client", 7000216},
		"unknown tenant": {"00000000-0000-4000-8000-00000000000b", nil, 400, "invalid_request", 90002},
		"unknown app":    {tenant, map[string]string{"client_id": "00000000-0000-4000-8000-00000000000c"}, 400, "unauthorized_client", 700016},
		"no grant":       {tenant, map[string]string{"grant_type": ""}, 400, "invalid_request", 900144},
		"other grant":    {tenant, map[string]string{"grant_type": "password"}, 400, "unsupported_grant_type", 70003},
		"scope":          {tenant, map[string]string{"scope": "https://graph.microsoft.com/Mail.Read"}, 400, "invalid_scope", 1002012},
		"bad assertion": {
			tenant,
			map[string]string{"client_assertion": "x", "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			401, "invalid_client", 50027,
		},
		"untyped assertion": {tenant, map[string]string{"client_assertion": "x"}, 400, "invalid_request", 900144},
	}
	for name, c := range cases {
		status, body := w.postForm("https://login.test/"+c.tenant+"/oauth2/v2.0/token", form(c.change))
		codes, _ := body["error_codes"].([]any)
		if status != c.status || body["error"] != c.word || !slices.Equal(codes, []any{c.numeric}) {
			t.Errorf("%s: %d %v", name, status, body)
		}
		for _, member := range []string{"error_description", "timestamp", "trace_id", "correlation_id", "error_uri"} {
			if text, _ := body[member].(string); text == "" {
				t.Errorf("%s: no %s", name, member)
			}
		}
	}
	if status, body := w.postForm(tokenURL, form(map[string]string{"client_secret": "old"})); status != 200 || body["token_type"] != "Bearer" {
		t.Errorf("second secret: %d %v", status, body)
	}
}

// keySet reads the published keys without the simulator's help.
func keySet(t *testing.T, w *world, target string) jwt.Keyfunc {
	t.Helper()
	raw := w.raw(w.request(http.MethodGet, target, "")).body
	var set struct {
		Keys []struct {
			Kid string `json:"kid"`
			N   string `json:"n"`
			E   string `json:"e"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	return func(tok *jwt.Token) (any, error) {
		for _, k := range set.Keys {
			if k.Kid != tok.Header["kid"] {
				continue
			}
			n, err := base64.RawURLEncoding.DecodeString(k.N)
			if err != nil {
				return nil, err
			}
			e, err := base64.RawURLEncoding.DecodeString(k.E)
			return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}, err
		}
		return nil, jwt.ErrTokenUnverifiable
	}
}

func TestTokenAndDiscovery(t *testing.T) {
	w := newWorld(t, graphsim.Config{Clients: map[string]graphsim.Client{app: {Secrets: []string{secret}, Roles: []string{"Mail.Read"}}}})
	status, body := w.postForm(tokenURL, form(nil))
	if status != 200 || body["expires_in"] != float64(3600) {
		t.Fatalf("token: %d %v", status, body)
	}
	status, doc := w.send(w.request(http.MethodGet, "https://login.test/common/v2.0/.well-known/openid-configuration", ""))
	if status != 200 || doc["issuer"] != "https://login.microsoftonline.com/{tenantid}/v2.0" ||
		doc["token_endpoint"] != "https://login.test/common/oauth2/v2.0/token" {
		t.Fatalf("discovery: %d %v", status, doc)
	}
	_, own := w.send(w.request(http.MethodGet, "https://login.test/"+tenant+"/v2.0/.well-known/openid-configuration", ""))
	if own["issuer"] != "https://login.microsoftonline.com/"+tenant+"/v2.0" || own["token_endpoint"] != tokenURL {
		t.Errorf("the tenant's discovery: %v", own)
	}
	if status, body := w.send(w.request(http.MethodGet, "https://login.test/nobody/v2.0/.well-known/openid-configuration", "")); status != 400 {
		t.Errorf("discovery of no tenant: %d %v", status, body)
	}
	keys, _ := doc["jwks_uri"].(string)
	raw, _ := body["access_token"].(string)
	var claims jwt.MapClaims
	_, err := jwt.ParseWithClaims(raw, &claims, keySet(t, w, keys), jwt.WithValidMethods([]string{"RS256"}),
		jwt.WithIssuer("https://sts.windows.net/"+tenant+"/"), jwt.WithAudience("https://graph.microsoft.com"))
	if err != nil {
		t.Fatal(err)
	}
	roles, _ := claims["roles"].([]any)
	if claims["tid"] != tenant || claims["appid"] != app || claims["scp"] != nil || !slices.Equal(roles, []any{"Mail.Read"}) {
		t.Errorf("claims %v", claims)
	}
}

func TestBearerTokens(t *testing.T) {
	w := newWorld(t, graphsim.Config{})
	other := newWorld(t, graphsim.Config{})
	_, body := w.postForm(tokenURL, form(map[string]string{"scope": "https://vault.azure.net/.default"}))
	foreign, _ := body["access_token"].(string)
	for name, header := range map[string]string{
		"none": "", "basic": "Basic abc", "garbage": "Bearer abc", "another signer's": "Bearer " + other.token, "another audience's": "Bearer " + foreign,
	} {
		req := w.request(http.MethodGet, "https://graph.test/v1.0/subscriptions", "")
		req.Header.Set("Authorization", header)
		status, body := w.send(req)
		t.Log(name)
		w.refused(status, body, 401, "InvalidAuthenticationToken", "")
	}
	_, body = w.postForm(tokenURL, form(map[string]string{"scope": "https://graph.test/.default"}))
	w.token, _ = body["access_token"].(string)
	if status, _ := w.graph(http.MethodGet, "", nil); status != 200 {
		t.Errorf("the own root as audience: %d", status)
	}
}

func TestAssertions(t *testing.T) {
	key := newRSA(t, 2048)
	w := newWorld(t, graphsim.Config{Clients: map[string]graphsim.Client{app: {
		Secrets: []string{secret}, Certificates: []*x509.Certificate{selfSigned(t, key)}, Subjects: []string{"system:serviceaccount:graph:graphsubd"},
	}}})
	assert := func(signer *rsa.PrivateKey, method jwt.SigningMethod, subject, audience string, life time.Duration) (int, map[string]any) {
		signed, err := jwt.NewWithClaims(method, jwt.RegisteredClaims{
			Issuer: subject, Subject: subject, Audience: jwt.ClaimStrings{audience}, ExpiresAt: jwt.NewNumericDate(time.Now().Add(life)),
		}).SignedString(signer)
		if err != nil {
			t.Fatal(err)
		}
		return w.postForm(tokenURL, form(map[string]string{
			"client_secret": "", "client_assertion": signed,
			"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
		}))
	}
	const exchange = "api://AzureADTokenExchange"
	stranger := newRSA(t, 2048)
	for name, c := range map[string]struct {
		signer            *rsa.PrivateKey
		method            jwt.SigningMethod
		subject, audience string
		life              time.Duration
		want              float64
	}{
		"certificate":            {key, jwt.SigningMethodPS256, app, tokenURL, time.Minute, 0},
		"certificate, RS256":     {key, jwt.SigningMethodRS256, app, tokenURL, time.Minute, 0},
		"unregistered":           {stranger, jwt.SigningMethodPS256, app, tokenURL, time.Minute, 700027},
		"expired":                {key, jwt.SigningMethodPS256, app, tokenURL, -time.Minute, 700027},
		"another endpoint's":     {key, jwt.SigningMethodPS256, app, "https://other.test/", time.Minute, 700027},
		"another app's":          {key, jwt.SigningMethodPS256, tenant, tokenURL, time.Minute, 700027},
		"federated":              {stranger, jwt.SigningMethodRS256, "system:serviceaccount:graph:graphsubd", exchange, time.Minute, 0},
		"federated, unknown":     {stranger, jwt.SigningMethodRS256, "system:serviceaccount:other:other", exchange, time.Minute, 700213},
		"federated, but expired": {stranger, jwt.SigningMethodRS256, "system:serviceaccount:graph:graphsubd", exchange, -time.Minute, 700024},
	} {
		status, body := assert(c.signer, c.method, c.subject, c.audience, c.life)
		codes, _ := body["error_codes"].([]any)
		if c.want == 0 && status != 200 || c.want != 0 && !slices.Equal(codes, []any{c.want}) {
			t.Errorf("%s: %d %v", name, status, body)
		}
	}
}
