package notification

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"
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
	elements, ok := collection(body)
	if !ok {
		return Envelope{Malformed: [][]byte{describe(body)}}, nil
	}
	envelope := Envelope{Items: make([]Item, 0, len(elements))}
	for _, element := range elements {
		if item, ok := decodeItem(element); ok {
			envelope.Items = append(envelope.Items, item)
		} else {
			envelope.Malformed = append(envelope.Malformed, strip(element))
		}
	}
	return envelope, nil
}

// collection gives the elements of value; a null value has none.
func collection(body []byte) (elements []json.RawMessage, ok bool) {
	var envelope struct {
		Value json.RawMessage `json:"value"`
	}
	ok = json.Unmarshal(body, &envelope) == nil && json.Unmarshal(envelope.Value, &elements) == nil
	return elements, ok
}

// decodeItem is ok when the element names a subscription and is either a
// change or a lifecycle event.
func decodeItem(element []byte) (Item, bool) {
	members := object(element)
	if members == nil {
		return Item{}, false
	}
	data := object(members["resourcedata"])
	item := Item{
		ID:             text(members["id"]),
		SubscriptionID: strings.ToLower(text(members["subscriptionid"])),
		TenantID:       strings.ToLower(text(members["tenantid"])),
		ChangeType:     strings.ToLower(text(members["changetype"])),
		Resource:       text(members["resource"]),
		ODataType:      text(data["@odata.type"]),
		ETag:           text(data["@odata.etag"]),
		ExpiresAt:      instant(text(members["subscriptionexpirationdatetime"])),
		LifecycleEvent: text(members["lifecycleevent"]),
		ClientState:    text(members["clientstate"]),
		JSON:           strip(element),
	}
	_, named := members["lifecycleevent"]
	item.Lifecycle = item.LifecycleEvent != "" || named && item.ChangeType == ""
	return item, item.SubscriptionID != "" && (item.Lifecycle || item.ChangeType != "")
}
