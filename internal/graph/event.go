package graph

import "time"

// EventType names an operational event, which goes to the subscription's own
// sinks beside its changes.
type EventType string

// The operational events.
const (
	EventGapOpened             EventType = "io.graphsubd.gap.opened"
	EventGapClosed             EventType = "io.graphsubd.gap.closed"
	EventSubscriptionCreated   EventType = "io.graphsubd.subscription.created"
	EventSubscriptionRecreated EventType = "io.graphsubd.subscription.recreated"
	EventSubscriptionParked    EventType = "io.graphsubd.subscription.parked"
	EventSubscriptionResumed   EventType = "io.graphsubd.subscription.resumed"
	EventSubscriptionRemoved   EventType = "io.graphsubd.subscription.removed"
	EventSinkPaused            EventType = "io.graphsubd.sink.paused"
	EventSinkResumed           EventType = "io.graphsubd.sink.resumed"
)

// EventTypes lists every operational event.
func EventTypes() []EventType {
	return []EventType{
		EventGapOpened, EventGapClosed,
		EventSubscriptionCreated, EventSubscriptionRecreated, EventSubscriptionParked,
		EventSubscriptionResumed, EventSubscriptionRemoved,
		EventSinkPaused, EventSinkResumed,
	}
}

// Event is one operational event about a subscription. Its JSON is the data
// of the CloudEvent.
type Event struct {
	Type         EventType `json:"-"`
	At           time.Time `json:"-"`
	TenantID     string    `json:"-"`
	Name         string    `json:"subscription"`
	ID           string    `json:"subscriptionId,omitempty"`
	ExpiresAt    time.Time `json:"expiresAt,omitzero"`
	From         time.Time `json:"from,omitzero"`
	To           time.Time `json:"to,omitzero"`
	Cause        GapCause  `json:"cause,omitempty"`
	Reason       Reason    `json:"reason,omitempty"`
	NextTryAt    time.Time `json:"nextTryAt,omitzero"`
	FormerID     string    `json:"formerSubscriptionId,omitempty"`
	ResourcePath string    `json:"resource,omitempty"`
}

// Change is what one step of the renewal writes, in one transaction: the
// record as it now is, or its end, with the gaps and events that go with it.
type Change struct {
	Record Record
	// Forget deletes the record instead of storing it.
	Forget bool
	// Opened and Closed are gaps that begin or end with this step.
	Opened, Closed *Gap
	Events         []Event
}

// LifecycleItem is a stored lifecycle notification, for the leader to act on.
// Event is as Graph sent it and may be one that is not known.
type LifecycleItem struct {
	ID             string
	Name           string
	Gen            string
	SubscriptionID string
	Event          string
	ReceivedAt     time.Time
}
