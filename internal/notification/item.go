package notification

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Item is one element of a changeNotificationCollection. A member that is
// missing, null or of an unexpected type is its zero value: Graph's own
// samples leave most of them out somewhere.
type Item struct {
	ID             string
	SubscriptionID string // lower case
	TenantID       string // lower case; "" for personal accounts
	ChangeType     string // lower case
	Resource       string
	ODataType      string // of resourceData
	ETag           string // of resourceData
	ExpiresAt      time.Time

	// Lifecycle says that the item is a lifecycle event; LifecycleEvent is
	// its name as sent, which may be one that is not known yet, or empty.
	Lifecycle      bool
	LifecycleEvent string

	// ClientState is a secret; it is not part of JSON.
	ClientState string
	// JSON is the item as it came, compacted, without clientState.
	JSON []byte
}

// Envelope is one decoded POST. Malformed holds the elements that are no
// usable items, as JSON without clientState.
type Envelope struct {
	Items     []Item
	Malformed [][]byte
}

// ErrNotJSON says that a body is no JSON at all, so that sending it again
// cannot help.
var ErrNotJSON = errors.New("body is not JSON")

// Decode reads a posted body. It is lenient: a byte order mark, unknown
// members, names in any case, nulls and odd dates are all accepted, and a bad
// element spoils only itself. The only error is ErrNotJSON; JSON that is no
// collection gives an envelope without items and one malformed element.
func Decode(body []byte) (Envelope, error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if !json.Valid(body) {
		return Envelope{}, ErrNotJSON
	}
	// Go's decoder puts the same character for what is no UTF-8.
	root := gjson.Parse(strings.ToValidUTF8(string(body), "\uFFFD"))
	value := find(object(root), "value")
	switch {
	case value.Raw == "null":
		return Envelope{}, nil
	case !value.IsArray():
		return Envelope{Malformed: [][]byte{describe(root.Raw)}}, nil
	}
	var envelope Envelope
	value.ForEach(func(_, element gjson.Result) bool {
		members := object(element)
		if members == nil {
			envelope.Malformed = append(envelope.Malformed, describe(element.Raw))
		} else if item, ok := decodeItem(members); ok {
			envelope.Items = append(envelope.Items, item)
		} else {
			envelope.Malformed = append(envelope.Malformed, item.JSON)
		}
		return true
	})
	return envelope, nil
}

// decodeItem is ok when the element names a subscription and is either a
// change or a lifecycle event.
func decodeItem(members []member) (Item, bool) {
	data := object(find(members, "resourceData"))
	event := find(members, "lifecycleEvent")
	item := Item{
		ID:             text(members, "id"),
		SubscriptionID: strings.ToLower(text(members, "subscriptionId")),
		TenantID:       strings.ToLower(text(members, "tenantId")),
		ChangeType:     strings.ToLower(text(members, "changeType")),
		Resource:       text(members, "resource"),
		ODataType:      text(data, "@odata.type"),
		ETag:           text(data, "@odata.etag"),
		ExpiresAt:      instant(text(members, "subscriptionExpirationDateTime")),
		LifecycleEvent: text(members, "lifecycleEvent"),
		ClientState:    text(members, "clientState"),
		JSON:           strip(members),
	}
	item.Lifecycle = item.LifecycleEvent != "" || event.Exists() && item.ChangeType == ""
	return item, item.SubscriptionID != "" && (item.Lifecycle || item.ChangeType != "")
}
