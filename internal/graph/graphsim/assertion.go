package graphsim

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

//nolint:gosec // The name of a type, no secret.
const bearerAssertion = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// federatedAudience is what a federated assertion must be made for.
const federatedAudience = "api://AzureADTokenExchange"

// checkAssertion accepts an assertion that a registered certificate signed, or
// one of a federated subject.
func (s *Sim) checkAssertion(x *exchange, app string, client Client) error {
	form := x.request.PostForm
	if form.Get("client_assertion_type") != bearerAssertion {
		return entraError(http.StatusBadRequest, "invalid_request", 900144,
			"The request body must contain the following parameter: 'client_assertion_type'.")
	}
	raw := form.Get("client_assertion")
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(raw, &claims); err != nil {
		return entraError(http.StatusUnauthorized, "invalid_client", 50027, "JWT token is invalid or malformed.")
	}
	if slices.Contains(claims.Audience, federatedAudience) {
		return s.checkFederated(x, client, claims)
	}
	if client.anything {
		return nil
	}
	endpoint := origin(x.request) + x.request.URL.Path
	for _, cert := range client.Certificates {
		_, err := jwt.ParseWithClaims(raw, &jwt.RegisteredClaims{},
			func(*jwt.Token) (any, error) { return cert.PublicKey, nil },
			jwt.WithValidMethods([]string{"RS256", "PS256"}), jwt.WithExpirationRequired(), jwt.WithAudience(endpoint),
			jwt.WithTimeFunc(func() time.Time { return x.now }))
		if err == nil && strings.EqualFold(claims.Issuer, app) && strings.EqualFold(claims.Subject, app) {
			return nil
		}
	}
	return entraError(http.StatusUnauthorized, "invalid_client", 700027,
		"The certificate with identifier used to sign the client assertion is not registered on application, "+
			"or the assertion's audience or time range is wrong.")
}

// checkFederated judges an assertion by its times and its subject. Without
// registrations any subject will do.
func (s *Sim) checkFederated(x *exchange, client Client, claims jwt.RegisteredClaims) error {
	validator := jwt.NewValidator(jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return x.now }))
	if err := validator.Validate(claims); err != nil {
		return entraError(http.StatusUnauthorized, "invalid_client", 700024,
			"Client assertion is not within its valid time range.")
	}
	if client.anything || slices.Contains(client.Subjects, claims.Subject) {
		return nil
	}
	return entraError(http.StatusUnauthorized, "invalid_client", 700213,
		"No matching federated identity record found for presented assertion subject '%s'.", claims.Subject)
}
