package store

import (
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// fate is what the router makes of a row: a state of it, or its quarantine
// when there is a reason.
type fate struct {
	state  string
	reason notification.Reason
}

// knowledge is what the store knows about one row.
type knowledge struct {
	wish  *wishEntry            // nil when no wish ever had the name
	owner *notification.Address // whom the subscription id belongs to, nil when it is not known
	// duplicate says that a row with the same evidence has been routed.
	duplicate bool
}

// decide gives the fate of a row.
//
// An item that is evidently the same as a forwarded one is a duplicate,
// whatever else could be said of it. The id decides last: it is the only
// thing that becomes known later, when a notification outruns the answer to
// the call that created its subscription.
func decide(now time.Time, row *notification.Row, known knowledge, holdFor time.Duration) fate {
	operation := row.Kind == notification.KindOperation
	switch {
	case known.duplicate:
		return fate{state: stateDuplicate}
	case known.wish == nil:
		return fate{reason: notification.ReasonUnknownSubscription}
	case operation:
		return fate{state: stateRouted}
	case known.wish.deleted && row.Kind == notification.KindChange:
		return fate{reason: notification.ReasonNotDesired}
	case !notification.TenantMatches(known.wish.tenantID, row.TenantID):
		return fate{reason: notification.ReasonWrongTenant}
	case known.owner != nil && *known.owner != row.Address:
		return fate{reason: notification.ReasonBadClientState}
	case known.owner != nil:
		return fate{state: stateRouted}
	case now.Sub(row.ReceivedAt) < holdFor:
		return fate{state: stateHeld}
	}
	return fate{reason: notification.ReasonUnknownSubscription}
}
