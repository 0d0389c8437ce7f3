package graphsim

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // Graph encrypts keys with RSA-OAEP over SHA-1.
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// publisher is the application id that signs Graph's notifications.
const publisher = "0bf30f3b-4a52-48df-9a82-234910c4a086"

// sealed is encryptedContent on the wire.
type sealed struct {
	Data                            string `json:"data"`
	DataKey                         string `json:"dataKey"`
	DataSignature                   string `json:"dataSignature"`
	EncryptionCertificateID         string `json:"encryptionCertificateId"`
	EncryptionCertificateThumbprint string `json:"encryptionCertificateThumbprint"`
}

// seal encrypts a resource under a fresh key: AES-256-CBC whose IV is the first
// half of the key, PKCS#7, HMAC-SHA256 over the ciphertext.
func seal(cert certificate, plaintext []byte) (*sealed, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("graphsim: draw a content key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("graphsim: seal content: %w", err)
	}
	pad := aes.BlockSize - len(plaintext)%aes.BlockSize
	padded := append(bytes.Clone(plaintext), bytes.Repeat([]byte{byte(pad)}, pad)...)
	data := make([]byte, len(padded))
	cipher.NewCBCEncrypter(block, key[:aes.BlockSize]).CryptBlocks(data, padded)
	mac := hmac.New(sha256.New, key)
	mac.Write(data)
	//nolint:gosec // Graph encrypts keys with RSA-OAEP over SHA-1.
	wrapped, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, cert.key, key, nil)
	if err != nil {
		return nil, fmt.Errorf("graphsim: seal a content key: %w", err)
	}
	encode := base64.StdEncoding.EncodeToString
	return &sealed{
		Data: encode(data), DataKey: encode(wrapped), DataSignature: encode(mac.Sum(nil)),
		EncryptionCertificateID: cert.id, EncryptionCertificateThumbprint: cert.thumbprint,
	}, nil
}

// proof is a validation token that may be used again while it is young.
type proof struct {
	token string
	until time.Time
}

// prove gives the validation token of one application and tenant. The caller
// holds the lock.
func (s *Sim) prove(app, tenant string) (string, error) {
	now, key := s.now(), app+" "+tenant
	if p, ok := s.outbox.proofs[key]; ok && now.Before(p.until) {
		return p.token, nil
	}
	life := s.tokenLife(s.cfg.ValidationTokenLifetime)
	r := stream(s.seed, "proof", app, tenant)
	version := s.cfg.ValidationTokenVersion
	if version == "" {
		version = pick(r, "1.0", "2.0")
	}
	principal := guid(stream(s.seed, "principal", publisher, tenant))
	claims := jwt.MapClaims{
		"aud": app, "ver": version, "tid": tenant, "oid": principal, "sub": principal,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(life).Unix(), "uti": token(r, 22),
	}
	if version == "1.0" {
		claims["iss"], claims["appid"], claims["appidacr"] = "https://sts.windows.net/"+tenant+"/", publisher, "2"
	} else {
		claims["iss"], claims["azp"], claims["azpacr"] = s.login+"/"+tenant+"/v2.0", publisher, "2"
	}
	signed, err := s.keys.sign(claims)
	if err != nil {
		return "", err
	}
	if s.outbox.proofs == nil {
		s.outbox.proofs = map[string]proof{}
	}
	s.outbox.proofs[key] = proof{signed, now.Add(life / 2)}
	return signed, nil
}
