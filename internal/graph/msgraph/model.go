package msgraph

import (
	"errors"
	"regexp"
	"strings"

	"github.com/microsoft/kiota-abstractions-go/serialization"
	jsonserialization "github.com/microsoft/kiota-serialization-json-go"
	"github.com/microsoftgraph/msgraph-sdk-go/models"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// newCreateBody gives exactly what a create needs. latestSupportedTlsVersion
// is left out on purpose: Graph documents v1_3 and refuses it.
func newCreateBody(s graph.Subscription) models.Subscriptionable {
	body := models.NewSubscription()
	body.SetChangeType(new(graph.JoinChangeTypes(s.ChangeTypes)))
	body.SetResource(&s.Resource)
	body.SetNotificationUrl(&s.NotificationURL)
	body.SetExpirationDateTime(new(s.ExpiresAt.UTC()))
	if s.LifecycleNotificationURL != "" {
		body.SetLifecycleNotificationUrl(&s.LifecycleNotificationURL)
	}
	if s.ClientState != "" {
		body.SetClientState(&s.ClientState)
	}
	return body
}

// newRenewBody gives the expiry alone: any other property would be refused or,
// worse, taken.
func newRenewBody(r graph.Renewal) models.Subscriptionable {
	body := models.NewSubscription()
	body.SetExpirationDateTime(new(r.ExpiresAt.UTC()))
	return body
}

var (
	errNotJSON     = errors.New("the answer is not Graph's: it is empty or no JSON")
	errIncomplete  = errors.New("the answer lacks the id or the expiry of the subscription")
	errOtherID     = errors.New("the answer is about another subscription")
	errNoPageValue = errors.New("a page of the listing is not one: it has no value, or an item without an id")
)

// parseSubscription reads the answer to a create, a renewal or a get. An id
// of "" accepts any.
func parseSubscription(body []byte, id string) (graph.Subscription, error) {
	object, err := parse(body, models.CreateSubscriptionFromDiscriminatorValue)
	if err != nil {
		return graph.Subscription{}, err
	}
	model, ok := object.(models.Subscriptionable)
	if !ok {
		return graph.Subscription{}, errNotJSON
	}
	s := fromModel(model)
	switch {
	case s.ID == "" || s.ExpiresAt.IsZero():
		return graph.Subscription{}, errIncomplete
	case id != "" && !strings.EqualFold(s.ID, id):
		return graph.Subscription{}, errOtherID
	}
	return s, nil
}

// parsePage reads one page of a listing and the link to the next, "" on the
// last. A page without its value proves nothing and is an error.
func parsePage(body []byte) (page []graph.Subscription, next string, err error) {
	object, err := parse(body, models.CreateSubscriptionCollectionResponseFromDiscriminatorValue)
	if err != nil {
		return nil, "", err
	}
	model, ok := object.(models.SubscriptionCollectionResponseable)
	if !ok || model.GetValue() == nil {
		return nil, "", errNoPageValue
	}
	for _, item := range model.GetValue() {
		if item == nil || text(item.GetId()) == "" {
			return nil, "", errNoPageValue
		}
		page = append(page, fromModel(item))
	}
	return page, text(model.GetOdataNextLink()), nil
}

// parse reads a JSON object into a model. The SDK takes a time without a zone
// for local time; Graph means UTC.
func parse(body []byte, factory serialization.ParsableFactory) (serialization.Parsable, error) {
	zoneless := regexp.MustCompile(`("expirationDateTime"\s*:\s*"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)"`)
	node, err := jsonserialization.NewJsonParseNode(zoneless.ReplaceAll(body, []byte(`${1}Z"`)))
	if err != nil {
		return nil, errNotJSON
	}
	object, err := node.GetObjectValue(factory)
	if err != nil || object == nil {
		return nil, errNotJSON
	}
	return object, nil
}

// fromModel leaves out the clientState: where Graph gives it back at all it
// is not to be relied on, and a secret is better not copied.
func fromModel(m models.Subscriptionable) graph.Subscription {
	s := graph.Subscription{
		ID:                       text(m.GetId()),
		ApplicationID:            text(m.GetApplicationId()),
		Resource:                 text(m.GetResource()),
		ChangeTypes:              graph.SplitChangeTypes(text(m.GetChangeType())),
		NotificationURL:          text(m.GetNotificationUrl()),
		LifecycleNotificationURL: text(m.GetLifecycleNotificationUrl()),
	}
	if at := m.GetExpirationDateTime(); at != nil {
		s.ExpiresAt = at.UTC()
	}
	return s
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
