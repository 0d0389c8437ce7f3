package graph

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"
)

// Source says who wished for a subscription.
type Source string

// The sources of wishes. Later ones carry a suffix, such as "template:mail".
const (
	SourceFile Source = "file"
	SourceREST Source = "rest"
)

// Wish is one desired subscription. The store keeps it as JSON, so its field
// names are part of the store's format.
type Wish struct {
	Name   string `json:"name"`
	Source Source `json:"source"`
	// Gen is a short hash of all that cannot be patched; see GenOf.
	Gen         string       `json:"gen"`
	Tenant      string       `json:"tenant"`    // name in the configuration
	TenantID    string       `json:"tenant_id"` // Entra tenant, lower case
	Resource    string       `json:"resource"`
	ChangeTypes []ChangeType `json:"change_types"`
	// Lifetime is how long to ask for; 0 means as long as Graph allows.
	Lifetime     time.Duration `json:"lifetime"`
	ImmutableIDs bool          `json:"immutable_ids"`
	// SilentAfter is how long nothing may come before that is told; 0 is for ever.
	SilentAfter time.Duration `json:"silent_after,omitzero"`
	Rotation    int           `json:"rotation"`
	Paused      bool          `json:"paused"`
	Sinks       []string      `json:"sinks"`
}

// genLength is 10 base32 digits, 50 bits: a collision needs two versions of
// one wish, so this is ample, and it keeps the URL short.
const genLength = 10

// GenOf hashes what Graph does not let one patch, the public URL and the id of
// the signing key into the gen that stands in the URLs. Two wishes of one name
// with the same gen can share a subscription; another gen needs a new one. The
// URL counts because the lifecycle URL can never be patched.
func GenOf(w Wish, publicURL, signingKeyID string) string {
	parts := []string{
		strings.ToLower(publicURL),
		strings.ToLower(w.TenantID), w.Resource, JoinChangeTypes(w.ChangeTypes),
		fmt.Sprint(w.ImmutableIDs), fmt.Sprint(w.Rotation), signingKeyID,
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:genLength]
}
