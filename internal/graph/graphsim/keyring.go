package graphsim

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"

	"github.com/golang-jwt/jwt/v5"
)

// keyring is the one key that signs access and validation tokens alike.
type keyring struct {
	private *rsa.PrivateKey
	id      string
}

func newKeyring(private *rsa.PrivateKey) (*keyring, error) {
	if private == nil {
		var err error
		if private, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			return nil, fmt.Errorf("graphsim: draw a signing key: %w", err)
		}
	}
	sum := sha256.Sum256(private.N.Bytes())
	return &keyring{private, base64.RawURLEncoding.EncodeToString(sum[:20])}, nil
}

func (k *keyring) sign(claims jwt.MapClaims) (string, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	t.Header["kid"] = k.id
	signed, err := t.SignedString(k.private)
	if err != nil {
		return "", fmt.Errorf("graphsim: sign a token: %w", err)
	}
	return signed, nil
}

// jwks is the public half as Entra publishes it.
func (k *keyring) jwks(issuer string) map[string]any {
	encode := base64.RawURLEncoding.EncodeToString
	return map[string]any{"keys": []map[string]any{{
		"kty": "RSA", "use": "sig", "kid": k.id, "x5t": k.id, "issuer": issuer,
		"n": encode(k.private.N.Bytes()), "e": encode(big.NewInt(int64(k.private.E)).Bytes()),
	}}}
}
