package msgraph

import (
	"context"
	"errors"
	"net/url"

	abstractions "github.com/microsoft/kiota-abstractions-go"
	"github.com/microsoftgraph/msgraph-sdk-go/subscriptions"
	"golang.org/x/time/rate"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Tenant makes the calls of one application in one Entra tenant. It is safe
// for concurrent use. Every error is a *graph.Error. A call that ends with an
// error may have taken effect where (*graph.Error).Ambiguous says so.
type Tenant struct {
	client *Client
	id     string
	tokens *tokens
	pages  *rate.Limiter // of listings
}

// Create makes the subscription and gives it as Graph granted it, with the
// clientState and ImmutableIDs of s, which Graph is not asked for again. Graph
// validates both URLs inside the call.
func (t *Tenant) Create(ctx context.Context, s graph.Subscription) (graph.Subscription, error) {
	var options *subscriptions.SubscriptionsRequestBuilderPostRequestConfiguration
	if s.ImmutableIDs {
		headers := abstractions.NewRequestHeaders()
		headers.Add("Prefer", `IdType="ImmutableId"`)
		options = &subscriptions.SubscriptionsRequestBuilderPostRequestConfiguration{Headers: headers}
	}
	var created graph.Subscription
	err := t.do(ctx, call{
		operation: graph.OperationCreate,
		limit:     maxBody,
		secrets:   []string{s.ClientState, pathOf(s.NotificationURL), pathOf(s.LifecycleNotificationURL)},
		request: func(ctx context.Context) (*abstractions.RequestInformation, error) {
			return t.collection().ToPostRequestInformation(ctx, newCreateBody(s), options)
		},
		read: func(body []byte) (err error) {
			created, err = parseSubscription(body, "")
			return err
		},
	})
	if err != nil {
		return graph.Subscription{}, err
	}
	created.ClientState, created.ImmutableIDs = s.ClientState, s.ImmutableIDs
	return created, nil
}

// pathOf gives the path of a URL of the receiver, which carries its token.
func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || len(u.Path) < 2 {
		return ""
	}
	return u.Path
}

// Renew sets a new expiry and gives the subscription as Graph granted it.
func (t *Tenant) Renew(ctx context.Context, id string, r graph.Renewal) (graph.Subscription, error) {
	return t.one(ctx, graph.OperationRenew, id, func(ctx context.Context, b builder) (*abstractions.RequestInformation, error) {
		return b.ToPatchRequestInformation(ctx, newRenewBody(r), nil)
	})
}

// Get reads the subscription, without its clientState.
func (t *Tenant) Get(ctx context.Context, id string) (graph.Subscription, error) {
	return t.one(ctx, graph.OperationGet, id, func(ctx context.Context, b builder) (*abstractions.RequestInformation, error) {
		return b.ToGetRequestInformation(ctx, nil)
	})
}

// Delete deletes the subscription. One that is gone already is an error like
// any other (graph.ErrSubscriptionGone); the caller decides.
func (t *Tenant) Delete(ctx context.Context, id string) error {
	return t.none(ctx, graph.OperationDelete, id, func(ctx context.Context, b builder) (*abstractions.RequestInformation, error) {
		return b.ToDeleteRequestInformation(ctx, nil)
	})
}

// Reauthorize renews the authorization and leaves the expiry as it is.
func (t *Tenant) Reauthorize(ctx context.Context, id string) error {
	return t.none(ctx, graph.OperationReauthorize, id, func(ctx context.Context, b builder) (*abstractions.RequestInformation, error) {
		return b.Reauthorize().ToPostRequestInformation(ctx, nil)
	})
}

type builder = *subscriptions.SubscriptionItemRequestBuilder

type itemRequest func(context.Context, builder) (*abstractions.RequestInformation, error)

// one makes a call that answers with the subscription.
func (t *Tenant) one(ctx context.Context, operation graph.Operation, id string, request itemRequest) (graph.Subscription, error) {
	var s graph.Subscription
	err := t.item(ctx, operation, id, request, func(body []byte) (err error) {
		s, err = parseSubscription(body, id)
		return err
	})
	if err != nil {
		return graph.Subscription{}, err
	}
	return s, nil
}

// none makes a call that answers with nothing.
func (t *Tenant) none(ctx context.Context, operation graph.Operation, id string, request itemRequest) error {
	return t.item(ctx, operation, id, request, nil)
}

func (t *Tenant) item(ctx context.Context, operation graph.Operation, id string, request itemRequest, read func([]byte) error) error {
	if id == "" || id == "." || id == ".." {
		// Such an id would address the collection.
		return &graph.Error{Operation: operation, Err: errors.New("the id of the subscription is not one")}
	}
	return t.do(ctx, call{
		operation: operation,
		limit:     maxBody,
		request: func(ctx context.Context) (*abstractions.RequestInformation, error) {
			return request(ctx, t.collection().BySubscriptionId(id))
		},
		read: read,
	})
}

func (t *Tenant) collection() *subscriptions.SubscriptionsRequestBuilder {
	parameters := map[string]string{"baseurl": t.client.endpoints.Graph + "/v1.0"}
	return subscriptions.NewSubscriptionsRequestBuilderInternal(parameters, t.client.adapter)
}
