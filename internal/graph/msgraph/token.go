package msgraph

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

const (
	// tokenLeeway is the life a token must have left to be used: longer than
	// any attempt, and what azidentity itself keeps.
	tokenLeeway = 5 * time.Minute
	// tokenFloor is the life that still does when the login is out of reach.
	tokenFloor = time.Minute
)

// tokens gives the access token of one tenant. One caller at a time asks the
// login; the others wait for it no longer than their own context.
type tokens struct {
	tenantID string
	scope    string
	maker    proofMaker
	gate     chan struct{} // holds one value while a caller is inside

	// The rest belongs to whoever is inside the gate.
	proof  proof
	token  azcore.AccessToken
	forced bool // the next token must not come from a cache
}

func newTokens(tenantID, scope string, maker proofMaker) *tokens {
	return &tokens{tenantID: tenantID, scope: scope, maker: maker, gate: make(chan struct{}, 1)}
}

func (t *tokens) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case t.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *tokens) leave() { <-t.gate }

// take gives a token with leeway. Where the login fails, a token that still
// has a minute is good enough.
func (t *tokens) take(ctx context.Context) (string, error) {
	if err := t.enter(ctx); err != nil {
		return "", err
	}
	defer t.leave()
	now := time.Now()
	if now.Before(t.token.ExpiresOn.Add(-tokenLeeway)) &&
		(t.token.RefreshOn.IsZero() || now.Before(t.token.RefreshOn)) {
		return t.token.Token, nil
	}
	fetched, err := t.fetch(ctx)
	switch {
	case err == nil:
		t.token, t.forced = fetched, false
		return fetched.Token, nil
	case time.Now().Before(t.token.ExpiresOn.Add(-tokenFloor)):
		return t.token.Token, nil
	}
	return "", err
}

// forget drops a token that Graph refused, with its credential and that
// credential's cache, unless another caller has replaced it already. A ctx
// that ends meanwhile leaves it.
func (t *tokens) forget(ctx context.Context, refused string) {
	if t.enter(ctx) != nil {
		return
	}
	defer t.leave()
	if t.token.Token == refused {
		t.token, t.proof, t.forced = azcore.AccessToken{}, proof{}, true
	}
}

// fetch asks the credential. A failure drops it, so that the next try reads
// the secret again.
func (t *tokens) fetch(ctx context.Context) (azcore.AccessToken, error) {
	if t.proof.TokenCredential == nil {
		made, err := t.maker.make(t.tenantID)
		if err != nil {
			return azcore.AccessToken{}, unusable(err, made.secret)
		}
		t.proof = made
	}
	options := policy.TokenRequestOptions{Scopes: []string{t.scope}, TenantID: t.tenantID}
	if t.forced && t.maker.credential.ManagedIdentity != nil {
		// The cache of managed identities is the process's, so a new
		// credential does not avoid it; a claim does, and is sent nowhere.
		options.Claims = `{"access_token":{}}`
	}
	token, err := t.proof.GetToken(ctx, options)
	secret := t.proof.secret
	if err == nil {
		err = checkClaims(token.Token, t.tenantID)
	}
	if err != nil {
		t.proof = proof{}
		return azcore.AccessToken{}, tokenFault(err, secret)
	}
	return token, nil
}

// checkClaims refuses a token that cannot work. A token that is no readable
// JWT passes: Graph's tokens are opaque by contract.
func checkClaims(token, tenantID string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	var claims struct {
		Scopes string `json:"scp"`
		Tenant string `json:"tid"`
	}
	if payload, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
		_ = json.Unmarshal(payload, &claims)
	}
	switch {
	case claims.Scopes != "":
		return errDelegated
	case isGUID(claims.Tenant) && isGUID(tenantID) && !strings.EqualFold(claims.Tenant, tenantID):
		return fmt.Errorf("%w: it is of tenant %s", errOtherTenant, claims.Tenant)
	}
	return nil
}
