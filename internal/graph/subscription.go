package graph

import (
	"slices"
	"strings"
	"time"
)

// ChangeType is a kind of change that a subscription can ask for.
type ChangeType string

// The change types that Graph lets one subscribe to.
const (
	Created ChangeType = "created"
	Updated ChangeType = "updated"
	Deleted ChangeType = "deleted"
)

// ChangeTypes lists every change type in the order Graph documents them.
func ChangeTypes() []ChangeType { return []ChangeType{Created, Updated, Deleted} }

// JoinChangeTypes gives the form Graph wants: sorted and joined with commas.
func JoinChangeTypes(types []ChangeType) string {
	words := make([]string, len(types))
	for i, t := range types {
		words[i] = string(t)
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

// SplitChangeTypes is the inverse of JoinChangeTypes; it tolerates spaces and
// any case, as answers of Graph have them.
func SplitChangeTypes(joined string) []ChangeType {
	var types []ChangeType
	for word := range strings.SplitSeq(joined, ",") {
		if word = strings.ToLower(strings.TrimSpace(word)); word != "" {
			types = append(types, ChangeType(word))
		}
	}
	slices.Sort(types)
	return types
}

// Subscription is a subscription as Graph holds it, or as it is asked for.
// ClientState is a secret; Graph never gives it back in a listing.
type Subscription struct {
	ID                       string
	ApplicationID            string
	Resource                 string
	ChangeTypes              []ChangeType
	NotificationURL          string
	LifecycleNotificationURL string
	ClientState              string
	ExpiresAt                time.Time

	// ImmutableIDs asks for Outlook ids that survive a move. It is a header
	// of the create call and never comes back.
	ImmutableIDs bool
}

// Renewal is what a PATCH may change. ExpiresAt is always sent.
type Renewal struct {
	ExpiresAt time.Time
}
