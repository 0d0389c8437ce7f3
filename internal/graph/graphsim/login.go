package graphsim

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const loginJSON = "application/json; charset=utf-8"

// Login serves the token service: tokens for client credentials, the discovery
// documents and the keys.
func (s *Sim) Login() http.Handler {
	return s.serve(service{name: "login", route: s.routeLogin, refuse: refuseLogin})
}

func (s *Sim) routeLogin(r *http.Request) (string, operation) {
	tenant, rest, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	tenant = strings.ToLower(tenant)
	switch {
	case r.Method == http.MethodPost && rest == "oauth2/v2.0/token":
		return "token", func(x *exchange) (answer, error) { return s.issue(x, tenant) }
	case r.Method == http.MethodGet && rest == "v2.0/.well-known/openid-configuration":
		return "discovery", func(x *exchange) (answer, error) { return s.discover(x, tenant, "2.0") }
	case r.Method == http.MethodGet && rest == ".well-known/openid-configuration":
		return "discovery", func(x *exchange) (answer, error) { return s.discover(x, tenant, "1.0") }
	case r.Method == http.MethodGet && (rest == "discovery/v2.0/keys" || rest == "discovery/keys"):
		return "keys", func(*exchange) (answer, error) {
			return jsonAnswer(http.StatusOK, loginJSON, s.keys.jwks(s.issuer("2.0", "{tenantid}")))
		}
	}
	return "other", func(*exchange) (answer, error) { return answer{status: http.StatusNotFound}, nil }
}

// entraError is a problem whose code is the OAuth error word; the number of the
// message says more.
func entraError(status int, word string, number int, format string, args ...any) *problem {
	return &problem{
		status: status, code: word,
		message: fmt.Sprintf("AADSTS%d: %s", number, fmt.Sprintf(format, args...)),
	}
}

func refuseLogin(x *exchange, p *problem) (answer, error) {
	number := 0
	if _, err := fmt.Sscanf(p.message, "AADSTS%d:", &number); err != nil {
		// A fault's status stands for trouble inside the service.
		number, p = 90033, &problem{
			status: p.status, code: "temporarily_unavailable",
			message: "AADSTS90033: A transient error has occurred. Please try again.",
		}
	}
	date := x.now.UTC().Format("2006-01-02 15:04:05Z")
	return jsonAnswer(p.status, loginJSON, map[string]any{
		"error": p.code,
		"error_description": fmt.Sprintf("%s Trace ID: %s Correlation ID: %s Timestamp: %s",
			p.message, x.requestID, x.clientRequestID, date),
		"error_codes":    []int{number},
		"timestamp":      date,
		"trace_id":       x.requestID,
		"correlation_id": x.clientRequestID,
		"error_uri":      fmt.Sprintf("%s/error?code=%d", origin(x.request), number),
	})
}

func (s *Sim) checkTenant(tenant string) error {
	known := isGUID(tenant)
	if len(s.cfg.Tenants) > 0 {
		known = slices.ContainsFunc(s.cfg.Tenants, func(t string) bool { return strings.EqualFold(t, tenant) })
	}
	if known {
		return nil
	}
	return entraError(http.StatusBadRequest, "invalid_request", 90002,
		"Tenant '%s' not found. Check to make sure you have the correct tenant ID and are signing into the correct cloud. "+
			"Check with your subscription administrator, this may happen if there are no active subscriptions for the tenant.", tenant)
}

// issue is the token endpoint.
func (s *Sim) issue(x *exchange, tenant string) (answer, error) {
	x.request.Body = http.MaxBytesReader(nil, x.request.Body, maxBody)
	if err := x.request.ParseForm(); err != nil {
		return answer{}, entraError(http.StatusBadRequest, "invalid_request", 900144, "The request body is malformed.")
	}
	if err := s.checkTenant(tenant); err != nil {
		return answer{}, err
	}
	form := x.request.PostForm
	for _, name := range []string{"grant_type", "client_id", "scope"} {
		if form.Get(name) == "" {
			return answer{}, entraError(http.StatusBadRequest, "invalid_request", 900144,
				"The request body must contain the following parameter: '%s'.", name)
		}
	}
	if form.Get("grant_type") != "client_credentials" {
		return answer{}, entraError(http.StatusBadRequest, "unsupported_grant_type", 70003,
			"The app requested an unsupported grant type '%s'.", form.Get("grant_type"))
	}
	app := strings.ToLower(form.Get("client_id"))
	client, err := s.registration(app, tenant)
	if err != nil {
		return answer{}, err
	}
	if err := s.checkCredential(x, app, client); err != nil {
		return answer{}, err
	}
	audience, err := audienceOf(form.Get("scope"))
	if err != nil {
		return answer{}, err
	}
	token, life, err := s.accessToken(x, app, tenant, audience)
	if err != nil {
		return answer{}, err
	}
	seconds := int(life / time.Second)
	return jsonAnswer(http.StatusOK, loginJSON, map[string]any{
		"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": token,
	})
}

// registration finds a client. Without any configured every GUID is one, whose
// credentials are not checked.
func (s *Sim) registration(app, tenant string) (Client, error) {
	if len(s.cfg.Clients) == 0 && isGUID(app) {
		return Client{anything: true}, nil
	}
	if c, ok := s.cfg.Clients[app]; ok {
		return c, nil
	}
	return Client{}, entraError(http.StatusBadRequest, "unauthorized_client", 700016,
		"Application with identifier '%s' was not found in the directory '%s'. This can happen if the application has not been "+
			"installed by the administrator of the tenant or consented to by any user in the tenant. "+
			"You may have sent your authentication request to the wrong tenant.", app, tenant)
}

// checkCredential accepts a secret or an assertion.
func (s *Sim) checkCredential(x *exchange, app string, client Client) error {
	form := x.request.PostForm
	if form.Get("client_assertion") != "" {
		return s.checkAssertion(x, app, client)
	}
	secret := form.Get("client_secret")
	if secret == "" {
		return entraError(http.StatusUnauthorized, "invalid_client", 7000216,
			"'client_assertion', 'client_secret' or 'request' is required for the 'client_credentials' grant type.")
	}
	if client.anything {
		return nil
	}
	for _, known := range client.Secrets {
		if subtle.ConstantTimeCompare([]byte(known), []byte(secret)) == 1 {
			return nil
		}
	}
	return entraError(http.StatusUnauthorized, "invalid_client", 7000215,
		"Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, "+
			"not the client secret ID, for a secret added to app '%s'.", app)
}

// audienceOf reads a scope. Microsoft's own client libraries add the OpenID
// scopes to it, which Entra ignores here.
func audienceOf(scope string) (string, error) {
	wanted := slices.DeleteFunc(strings.Fields(scope), func(s string) bool {
		return slices.Contains([]string{"openid", "offline_access", "profile", "email"}, s)
	})
	if len(wanted) == 1 {
		if audience, ok := strings.CutSuffix(wanted[0], "/.default"); ok && audience != "" {
			return audience, nil
		}
	}
	return "", entraError(http.StatusBadRequest, "invalid_scope", 1002012,
		"The provided value for scope %s is not valid. Client credential flows must have a scope value "+
			"with /.default suffixed to the resource identifier (application ID URI).", scope)
}

// issuer is who signs tokens of a version for a tenant.
func (s *Sim) issuer(version, tenant string) string {
	if version == "1.0" {
		return "https://sts.windows.net/" + tenant + "/"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.login + "/" + tenant + "/v2.0"
}

// discover gives the discovery document of one tenant, or of any with the
// issuer as a template.
func (s *Sim) discover(x *exchange, tenant, version string) (answer, error) {
	issuerTenant := tenant
	switch tenant {
	case "common", "organizations":
		issuerTenant = "{tenantid}"
	default:
		if err := s.checkTenant(tenant); err != nil {
			return answer{}, err
		}
	}
	root := origin(x.request) + "/" + tenant
	oauth, keys := "/oauth2/v2.0", "/discovery/v2.0/keys"
	if version == "1.0" {
		keys = "/discovery/keys"
	}
	return jsonAnswer(http.StatusOK, loginJSON, map[string]any{
		"issuer":                                s.issuer(version, issuerTenant),
		"token_endpoint":                        root + oauth + "/token",
		"authorization_endpoint":                root + oauth + "/authorize",
		"jwks_uri":                              root + keys,
		"token_endpoint_auth_methods_supported": []string{"client_secret_post", "private_key_jwt"},
		"response_types_supported":              []string{"code", "id_token", "code id_token", "id_token token"},
		"subject_types_supported":               []string{"pairwise"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
		"scopes_supported":                      []string{"openid", "profile", "email", "offline_access"},
		"tenant_region_scope":                   nil,
	})
}
