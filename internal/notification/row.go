package notification

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Kind is what a stored row is.
type Kind string

// The kinds of rows.
const (
	KindChange    Kind = "change"
	KindLifecycle Kind = "lifecycle"
	// KindOperation is an operational event of graphsubd itself, which goes
	// to sinks by the same way as a change.
	KindOperation Kind = "operation"
)

// Origin is where a row came from.
type Origin string

// The origins of rows.
const (
	OriginGraph     Origin = "graph"
	OriginDelta     Origin = "delta"
	OriginReplay    Origin = "replay"
	OriginPoll      Origin = "poll"
	OriginGraphsubd Origin = "graphsubd"
)

// Row is one item as it goes into the store. A row with a Reason goes to the
// quarantine and is never forwarded.
type Row struct {
	Address        Address
	SubscriptionID string
	TenantID       string
	ReceivedAt     time.Time
	Kind           Kind
	Origin         Origin
	// Type is the event type of an operation or the event of a lifecycle
	// item, "" for a change.
	Type     string
	Evidence Evidence
	Item     []byte // JSON without clientState
	Reason   Reason
}

// Evidence is what proves that two items are one: up to two keys, for the
// item's own id and for what it says changed. It is empty for an item that
// proves nothing; two of those are never taken for one.
type Evidence []EvidenceKey

// EvidenceKey is the first half of a SHA-256.
type EvidenceKey [16]byte

// EvidenceOf gives the keys of a change item of the named subscription. They
// hold the name and not the id, so that the overlap of two subscriptions of
// one wish does not double every event.
func EvidenceOf(name string, item *Item) Evidence {
	var keys Evidence
	if item.ID != "" {
		keys = append(keys, evidenceKey("id", name, item.ID))
	}
	if item.ETag != "" && item.Resource != "" {
		keys = append(keys, evidenceKey("etag", name, item.ChangeType, item.Resource, item.ETag))
	}
	return keys
}

// EvidenceOfEvent gives the key of an operational event.
func EvidenceOfEvent(eventType string, at time.Time, event []byte) Evidence {
	return Evidence{evidenceKey("operation", eventType, at.UTC().Format(time.RFC3339Nano), string(event))}
}

func evidenceKey(parts ...string) EvidenceKey {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return EvidenceKey(sum[:16])
}

// Notification is a stored row.
type Notification struct {
	ID string // ULID, in the order of storing on SQLite
	Row
}

// EventID is the stable id of the event: the same for a redelivery of the same
// item, and the same towards every sink.
func (n *Notification) EventID() string {
	if len(n.Evidence) > 0 {
		return hex.EncodeToString(n.Evidence[0][:])
	}
	return n.ID
}

// Delivery is one notification on its way to one sink.
type Delivery struct {
	ID           int64
	Sink         string
	Key          string // order is kept within a key, where a sink asks for it
	Attempts     int    // tries so far
	Notification Notification
}

// Outcome is how one try of a delivery ended. Next is when to try again,
// zero when it is done; Dead moves it to the dead letters instead.
type Outcome struct {
	DeliveryID int64
	Next       time.Time
	Dead       bool
	Error      string
}
