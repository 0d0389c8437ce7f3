package notification

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/url"
	"strings"
	"sync"
)

// Purpose is what a URL is for; it is the first segment of its path. The path
// is not the type of an item: Graph may send either kind to either URL.
type Purpose string

// The two purposes of a URL.
const (
	PurposeNotifications Purpose = "notifications"
	PurposeLifecycle     Purpose = "lifecycle"
)

// purposeClientState separates the MAC of the clientState from those of URLs.
const purposeClientState Purpose = "client-state"

const (
	// MinKeyLength is the shortest signing key, in bytes.
	MinKeyLength = 32
	// urlMACLength is 160 bits: 32 base32 digits without padding.
	urlMACLength = 20
)

// Keys prove that a URL or a clientState is our own. The first key signs, all
// verify. Any replica can check any item with no look-up, also one that
// arrives before the call that created its subscription has returned.
type Keys struct {
	instance string
	keys     [][]byte
	// hashes are keyed hashes that nobody uses, by key: keying one costs as much
	// as hashing.
	hashes []sync.Pool
}

// NewKeys takes the instance's name, which keeps two instances with one key
// apart, and at least one key of MinKeyLength bytes or more.
func NewKeys(instance string, keys [][]byte) (*Keys, error) {
	if len(keys) == 0 {
		return nil, errors.New("no signing key")
	}
	for i, key := range keys {
		if len(key) < MinKeyLength {
			return nil, fmt.Errorf("signing key %d has %d bytes, at least %d are needed", i+1, len(key), MinKeyLength)
		}
	}
	k := &Keys{instance: instance, keys: keys, hashes: make([]sync.Pool, len(keys))}
	for i, key := range keys {
		k.hashes[i].New = func() any { return hmac.New(sha256.New, key) }
	}
	return k, nil
}

// SigningKeyID names the key that signs, without telling anything of it.
func (k *Keys) SigningKeyID() string { return fingerprint(k.keys[0]) }

// Fingerprints names every key, the signing one first.
func (k *Keys) Fingerprints() []string {
	names := make([]string, len(k.keys))
	for i, key := range k.keys {
		names[i] = fingerprint(key)
	}
	return names
}

func fingerprint(key []byte) string {
	sum := sha256.Sum256(append([]byte("graphsubd signing key\x00"), key...))
	return hex.EncodeToString(sum[:8])
}

// Path gives the path of a URL: /{purpose}/{name}/{gen}/{mac}. It is a secret
// like the clientState, and all in lower case, since some hops fold case.
func (k *Keys) Path(purpose Purpose, name, gen string) string {
	return "/" + strings.Join([]string{string(purpose), name, gen, k.urlMAC(0, purpose, name, gen)}, "/")
}

// CheckPath says whether the MAC of a URL is one of ours. Case does not matter.
func (k *Keys) CheckPath(purpose Purpose, name, gen, mac string) bool {
	name, gen, mac = strings.ToLower(name), strings.ToLower(gen), strings.ToLower(mac)
	ok := false
	for i := range k.keys {
		ok = hmac.Equal([]byte(k.urlMAC(i, purpose, name, gen)), []byte(mac)) || ok
	}
	return ok
}

// ParseURL says whether a notification URL is one of ours below base, and
// whose. Host, name and MAC must all fit: a common prefix proves nothing.
func (k *Keys) ParseURL(base, address string) (name, gen string, ok bool) {
	want, err := url.Parse(base)
	if err != nil {
		return "", "", false
	}
	got, err := url.Parse(address)
	if err != nil || !strings.EqualFold(got.Host, want.Host) || !strings.EqualFold(got.Scheme, want.Scheme) {
		return "", "", false
	}
	path, found := strings.CutPrefix(strings.ToLower(got.Path), strings.ToLower(strings.TrimRight(want.Path, "/"))+"/")
	parts := strings.Split(path, "/")
	if !found || len(parts) != 4 || parts[0] != string(PurposeNotifications) {
		return "", "", false
	}
	if !k.CheckPath(PurposeNotifications, parts[1], parts[2], parts[3]) {
		return "", "", false
	}
	return parts[1], parts[2], true
}

// ClientState gives the secret that Graph returns with every item of a
// subscription: 43 characters, of the 128 that Graph allows.
func (k *Keys) ClientState(name, gen string) string {
	return clientState(k.mac(0, purposeClientState, name, gen))
}

// CheckClientState compares in constant time, byte for byte.
func (k *Keys) CheckClientState(name, gen, got string) bool {
	ok := false
	for i := range k.keys {
		want := clientState(k.mac(i, purposeClientState, name, gen))
		ok = hmac.Equal([]byte(want), []byte(got)) || ok
	}
	return ok
}

func (k *Keys) urlMAC(key int, purpose Purpose, name, gen string) string {
	sum := k.mac(key, purpose, name, gen)[:urlMACLength]
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum))
}

func clientState(mac []byte) string { return base64.RawURLEncoding.EncodeToString(mac) }

// mac signs with one of the keys, by its place.
func (k *Keys) mac(key int, purpose Purpose, name, gen string) []byte {
	mac, _ := k.hashes[key].Get().(hash.Hash) // New makes nothing else
	defer k.hashes[key].Put(mac)
	mac.Reset()
	// Writing to a hash never fails; the separator cannot stand in any part.
	_, _ = mac.Write([]byte(strings.Join([]string{string(purpose), k.instance, name, gen}, "\x00")))
	return mac.Sum(nil)
}
