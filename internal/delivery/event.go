package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/graphsubd/graphsubd/internal/notification"
)

// The extension attributes of every event.
const (
	extensionName = "subscriptionname"
	extensionKey  = "partitionkey"
)

// sourceUnknown is the source of an event that no tenant can be named for.
const sourceUnknown = "/graphsubd"

// Event makes the CloudEvent of a stored notification. appOf gives the
// application that a tenant is served by, "" when it is not known. The same
// notification always gives the same event. The partition key is the delivery's
// and is added with it. An error means that no event can ever be made of it.
func Event(n *notification.Notification, appOf func(tenantID string) string) (event.Event, error) {
	e := event.New()
	e.SetID(n.EventID())
	e.SetTime(n.ReceivedAt)
	e.SetSource(sourceOf(n.TenantID, appOf))
	if n.Address.Name != "" {
		e.SetExtension(extensionName, n.Address.Name)
	}
	switch n.Kind {
	case notification.KindOperation:
		e.SetType(n.Type)
		e.SetSubject(n.Address.Name)
	case notification.KindChange:
		item, err := itemOf(n)
		if err != nil {
			return event.Event{}, err
		}
		e.SetType(TypeOf(item))
		e.SetSubject(item.Resource)
	default:
		return event.Event{}, fmt.Errorf("a row of kind %q makes no event", n.Kind)
	}
	var data bytes.Buffer
	// Compact also finds what is no JSON, which would spoil a whole stream.
	if json.Compact(&data, n.Item) != nil {
		return event.Event{}, errors.New("stored item is not JSON")
	}
	// Not by SetData: it escapes the text of URLs and filters as for HTML.
	e.SetDataContentType(event.ApplicationJSON)
	e.DataEncoded = data.Bytes()
	if err := e.Validate(); err != nil {
		return event.Event{}, fmt.Errorf("make an event: %w", err)
	}
	return e, nil
}

// itemOf reads the stored item by the same decoder that read it from Graph.
func itemOf(n *notification.Notification) (*notification.Item, error) {
	body := append(append([]byte(`{"value":[`), n.Item...), "]}"...)
	envelope, err := notification.Decode(body)
	if err != nil {
		return nil, fmt.Errorf("read a stored item: %w", err)
	}
	if len(envelope.Items) != 1 {
		return nil, errors.New("stored item is no change notification")
	}
	return &envelope.Items[0], nil
}

func sourceOf(tenantID string, appOf func(string) string) string {
	if tenantID == "" {
		return sourceUnknown
	}
	source := "/tenants/" + url.PathEscape(tenantID)
	if app := appOf(tenantID); app != "" {
		source += "/applications/" + url.PathEscape(app)
	}
	return source
}
