package graphsim

import (
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // Graph names certificates by SHA-1 thumbprint.
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// payload is the body of a create or update call, with its exact spelling.
type payload map[string]json.RawMessage

// only refuses members that are not in the list. Annotations may be there.
func (p payload) only(names ...string) error {
	for name := range p {
		if !slices.Contains(names, name) && !strings.HasPrefix(name, "@odata.") {
			return malformed()
		}
	}
	return nil
}

// text gives a string member, "" where it is absent or null.
func (p payload) text(name string) (string, error) {
	var s *string
	if raw, ok := p[name]; ok {
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", malformed()
		}
	}
	if s == nil {
		return "", nil
	}
	return *s, nil
}

func (p payload) flag(name string) (bool, error) {
	var b *bool
	if raw, ok := p[name]; ok {
		if err := json.Unmarshal(raw, &b); err != nil {
			return false, malformed()
		}
	}
	return b != nil && *b, nil
}

// texts reads string members in order into the targets.
func (p payload) texts(into map[string]*string) error {
	for name, target := range into {
		value, err := p.text(name)
		if err != nil {
			return err
		}
		*target = value
	}
	return nil
}

// expiry reads expirationDateTime, which must name a zone.
func (p payload) expiry() (time.Time, error) {
	text, err := p.text("expirationDateTime")
	if err != nil {
		return time.Time{}, err
	}
	if text == "" {
		return time.Time{}, required("expirationDateTime")
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, malformed()
	}
	return t, nil
}

// certificate is what a rich subscription encrypts for.
type certificate struct {
	id, thumbprint string
	key            *rsa.PublicKey
}

// certificate reads the pair of encryption members; both or none must be there.
func (p payload) certificate() (certificate, error) {
	var text, id string
	if err := p.texts(map[string]*string{"encryptionCertificate": &text, "encryptionCertificateId": &id}); err != nil {
		return certificate{}, err
	}
	switch {
	case text == "" && id == "":
		return certificate{}, nil
	case text == "":
		return certificate{}, required("encryptionCertificate")
	case id == "":
		return certificate{}, required("encryptionCertificateId")
	case len(id) > 128:
		return certificate{}, invalid("encryptionCertificateId must not exceed 128 characters.")
	}
	der, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return certificate{}, badCertificate()
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return certificate{}, badCertificate()
	}
	key, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok || key.N.BitLen() < 2048 || key.N.BitLen() > 4096 {
		return certificate{}, invalid("Certificate validation error: the key must be RSA of 2048 to 4096 bits.")
	}
	//nolint:gosec // Graph names certificates by SHA-1 thumbprint.
	return certificate{id: id, thumbprint: fmt.Sprintf("%X", sha1.Sum(der)), key: key}, nil
}

func badCertificate() *problem {
	return invalid("Certificate validation error: Cannot find the requested object.")
}

// checkURL refuses what Graph could not call.
func (s *Sim) checkURL(name, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Fragment != "" || u.User != nil {
		return invalid("The %s is not an absolute URL that notifications can be sent to.", name)
	}
	if u.Scheme == "https" || u.Scheme == "http" && (s.cfg.AllowPlainHTTP || isLoopback(u.Hostname())) {
		return nil
	}
	return invalid("The %s must be an https URL.", name)
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
