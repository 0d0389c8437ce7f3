package graphsim_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/graphsubd/graphsubd/internal/graph/graphsim"
)

type richBody struct {
	Value []struct {
		ResourceData     map[string]any `json:"resourceData"`
		EncryptedContent struct {
			Data                            string `json:"data"`
			DataKey                         string `json:"dataKey"`
			DataSignature                   string `json:"dataSignature"`
			EncryptionCertificateID         string `json:"encryptionCertificateId"`
			EncryptionCertificateThumbprint string `json:"encryptionCertificateThumbprint"`
		} `json:"encryptedContent"`
	} `json:"value"`
	ValidationTokens []string `json:"validationTokens"`
}

// open decrypts as the documentation tells receivers to.
func open(t *testing.T, key *rsa.PrivateKey, data, dataKey, signature string) []byte {
	t.Helper()
	decode := func(s string) []byte {
		b, err := base64.StdEncoding.DecodeString(s)
		check(t, err)
		return b
	}
	k, err := rsa.DecryptOAEP(sha1.New(), nil, key, decode(dataKey), nil)
	check(t, err)
	c := decode(data)
	mac := hmac.New(sha256.New, k)
	mac.Write(c)
	if len(k) != 32 || !hmac.Equal(mac.Sum(nil), decode(signature)) {
		t.Fatalf("key of %d bytes, or a wrong signature", len(k))
	}
	block, err := aes.NewCipher(k)
	check(t, err)
	p := make([]byte, len(c))
	cipher.NewCBCDecrypter(block, k[:16]).CryptBlocks(p, c)
	pad := int(p[len(p)-1])
	if pad < 1 || pad > 16 || !bytes.Equal(p[len(p)-pad:], bytes.Repeat([]byte{byte(pad)}, pad)) {
		t.Fatalf("padding %d", pad)
	}
	return p[:len(p)-pad]
}

func TestRichNotifications(t *testing.T) {
	key := newRSA(t, 2048)
	for _, version := range []string{"1.0", "2.0"} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, graphsim.Config{ValidationTokenVersion: version, LoginURL: "https://login.test", BatchSize: 3})
				cert := certificate(t, key)
				w.create(map[string]any{
					"resource": "users/1/messages?$select=subject", "includeResourceData": true,
					"encryptionCertificate": cert, "encryptionCertificateId": "mail",
				})
				w.run()
				w.notify(graphsim.Notification{Count: 5})
				w.notify(graphsim.Notification{Content: json.RawMessage(`{"subject":"` + strings.Repeat("x", 16) + `"}`)})
				der, err := base64.StdEncoding.DecodeString(cert)
				check(t, err)
				thumbprint := sha1.Sum(der)
				var last []byte
				for _, raw := range w.hook.bodies {
					var body richBody
					check(t, json.Unmarshal(raw, &body))
					if len(body.ValidationTokens) != 1 {
						t.Fatalf("%d validation tokens, want one for the application", len(body.ValidationTokens))
					}
					checkProof(t, w, body.ValidationTokens[0], version)
					for _, it := range body.Value {
						e := it.EncryptedContent
						if e.EncryptionCertificateID != "mail" || e.EncryptionCertificateThumbprint != strings.ToUpper(hex.EncodeToString(thumbprint[:])) {
							t.Errorf("certificate %q %q", e.EncryptionCertificateID, e.EncryptionCertificateThumbprint)
						}
						last = open(t, key, e.Data, e.DataKey, e.DataSignature)
						var content map[string]any
						check(t, json.Unmarshal(last, &content))
						if content["id"] != nil && content["id"] != it.ResourceData["id"] {
							t.Errorf("content %v of %v", content, it.ResourceData)
						}
					}
				}
				if want := `{"subject":"xxxxxxxxxxxxxxxx"}`; string(last) != want {
					t.Errorf("content %s, want %s", last, want)
				}
			})
		})
	}
}

// checkProof checks a validation token as receivers must.
func checkProof(t *testing.T, w *world, raw, version string) {
	t.Helper()
	issuer, publisher := "https://sts.windows.net/"+tenant+"/", "appid"
	if version == "2.0" {
		issuer, publisher = "https://login.test/"+tenant+"/v2.0", "azp"
	}
	var claims jwt.MapClaims
	_, err := jwt.ParseWithClaims(raw, &claims, keySet(t, w, "https://login.test/common/discovery/v2.0/keys"),
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer(issuer), jwt.WithAudience(app), jwt.WithExpirationRequired())
	if err != nil {
		t.Fatal(err)
	}
	exp, err := claims.GetExpirationTime()
	check(t, err)
	if claims["tid"] != tenant || claims["ver"] != version || claims[publisher] != "0bf30f3b-4a52-48df-9a82-234910c4a086" ||
		time.Until(exp.Time) < 24*time.Hour {
		t.Errorf("claims %v", claims)
	}
}

func TestBasicNotificationsCarryNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, graphsim.Config{})
		w.create(nil)
		w.run()
		w.notify(graphsim.Notification{})
		if body := string(w.hook.bodies[0]); strings.Contains(body, "validationTokens") || strings.Contains(body, "encryptedContent") {
			t.Errorf("body %s", body)
		}
	})
}
