package httpapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// The events of lifecycle items, in Graph's casing. otherEvent stands for
// every name that is not known, so that labels stay few.
const (
	eventReauthorize = "reauthorizationRequired"
	eventRemoved     = "subscriptionRemoved"
	eventMissed      = "missed"
	otherEvent       = "other"
)

// lifecycleEvents lists the closed set.
func lifecycleEvents() []string {
	return []string{eventReauthorize, eventRemoved, eventMissed, otherEvent}
}

// foldEvent maps an event's name as sent onto the closed set. Graph has
// documented subscriptionRemoved under two words.
func foldEvent(name string) string {
	switch strings.ToLower(name) {
	case "reauthorizationrequired":
		return eventReauthorize
	case "subscriptionremoved", "removed":
		return eventRemoved
	case "missed":
		return eventMissed
	}
	return otherEvent
}

// maxMalformed is how many unusable elements of one POST are kept one by one.
// The rest is kept as their number: eight megabytes of commas must not become
// millions of rows.
const maxMalformed = 32

// batch is what one POST becomes.
type batch struct {
	rows   []notification.Row
	probes int
	// unknownEvents are the names of accepted lifecycle events that are not
	// known, as sent.
	unknownEvents []string
}

// judge makes the rows of an envelope that came to the URL of to. The order of
// the items is kept. An error is the store's: a look-up gave no answer.
func (r *Receiver) judge(ctx context.Context, to notification.Address, envelope *notification.Envelope, at time.Time) (batch, error) {
	out := batch{rows: make([]notification.Row, 0, len(envelope.Items)+len(envelope.Malformed))}
	owner := r.owner(ctx)
	for i := range envelope.Items {
		item := &envelope.Items[i]
		verdict, err := r.keys.Judge(to, item, owner)
		if err != nil {
			return batch{}, fmt.Errorf("find the owner of a subscription: %w", err)
		}
		if verdict.Drop {
			out.probes++
			continue
		}
		row := rowOf(item, verdict, at)
		out.rows = append(out.rows, row)
		if row.Type == otherEvent && row.Reason == "" {
			out.unknownEvents = append(out.unknownEvents, item.LifecycleEvent)
		}
	}
	for i, raw := range envelope.Malformed {
		if i == maxMalformed {
			raw = fmt.Appendf(nil, `{"malformed":"more","count":%d}`, len(envelope.Malformed)-i)
		}
		if i > maxMalformed {
			break
		}
		out.rows = append(out.rows, notification.Row{
			Address: to, ReceivedAt: at, Kind: notification.KindChange, Origin: notification.OriginGraph,
			Item: raw, Reason: notification.ReasonMalformed,
		})
	}
	return out, nil
}

// rowOf makes the row of one item. Its kind is the item's own: Graph may send
// either kind to either URL. Only what is accepted has evidence, or a forged
// item could make a true one look like its repetition.
func rowOf(item *notification.Item, verdict notification.Verdict, at time.Time) notification.Row {
	row := notification.Row{
		Address: verdict.Address, SubscriptionID: item.SubscriptionID, TenantID: item.TenantID,
		ReceivedAt: at, Kind: notification.KindChange, Origin: notification.OriginGraph,
		Item: item.JSON, Reason: verdict.Reason,
	}
	switch {
	case item.Lifecycle:
		row.Kind, row.Type = notification.KindLifecycle, foldEvent(item.LifecycleEvent)
	case verdict.Reason == "":
		row.Evidence = notification.EvidenceOf(verdict.Address.Name, item)
	}
	return row
}

// maxLookups bounds how often one POST may ask the store for an owner. Graph
// puts few subscriptions into one POST, and an honest item needs no look-up.
const maxLookups = 64

// owner asks the store once for each id of a POST, and takes the ids beyond
// maxLookups for unknown.
func (r *Receiver) owner(ctx context.Context) notification.Owner {
	type answer struct {
		address notification.Address
		found   bool
	}
	known := map[string]answer{}
	return func(id string) (notification.Address, bool, error) {
		if a, ok := known[id]; ok {
			return a.address, a.found, nil
		}
		if len(known) >= maxLookups {
			return notification.Address{}, false, nil
		}
		address, found, err := r.inbox.Owner(ctx, id)
		if err == nil {
			known[id] = answer{address, found}
		}
		return address, found, err
	}
}
