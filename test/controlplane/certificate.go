package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of the server and of its users.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	text        []byte // the certificate in PEM
}

// newAuthority writes ca.crt, server.crt and server.key into a folder.
func newAuthority(dir string) (a authority, err error) {
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return a, err
	}
	template := newTemplate(pkix.Name{CommonName: "test"})
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		return a, err
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return a, err
	}
	a.text = encode("CERTIFICATE", der)
	certificate, key, err := a.issue("kube-apiserver", nil, true)
	if err != nil {
		return a, err
	}
	for name, text := range map[string][]byte{"ca.crt": a.text, "server.crt": certificate, "server.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return a, err
		}
	}
	return a, nil
}

// issue signs a certificate for a server on loopback, or for a user: the API
// server takes the common name for the user and the organizations for groups.
func (a authority) issue(name string, groups []string, server bool) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := newTemplate(pkix.Name{CommonName: name, Organization: groups})
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if server {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", raw), nil
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: subject,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
