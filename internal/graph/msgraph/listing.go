package msgraph

import (
	"context"
	"errors"
	"net/url"

	abstractions "github.com/microsoft/kiota-abstractions-go"
	"github.com/microsoftgraph/msgraph-sdk-go/subscriptions"

	"github.com/graphsubd/graphsubd/internal/graph"
)

const (
	// maxPages and maxListing bound a listing; at Graph's rate limit for
	// listings so many pages take almost half an hour.
	maxPages   = 2000
	maxListing = 128 << 20 // bytes
)

// Reasons why a listing is not whole.
var (
	errForeignLink = errors.New("the listing is not whole: its next link leads away from Graph")
	errLoop        = errors.New("the listing is not whole: its next link leads to a page already read")
	errEndless     = errors.New("the listing is not whole: it is longer than any tenant's can be")
)

// List gives every subscription of the application in the tenant, page by
// page, each page within a time-out of its own. What it cannot read to its
// end is an error. Even a whole listing proves presence only: Graph has been
// seen to leave out subscriptions that exist.
func (t *Tenant) List(ctx context.Context) ([]graph.Subscription, error) {
	var (
		all  []graph.Subscription
		size int
		next string
		seen = map[string]bool{}
	)
	for range maxPages {
		var page []graph.Subscription
		err := t.do(ctx, call{
			operation: graph.OperationList,
			limit:     maxPage,
			request:   t.pageRequest(next),
			read: func(body []byte) (err error) {
				size += len(body)
				page, next, err = parsePage(body)
				return err
			},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		switch {
		case next == "":
			return all, nil
		case seen[next]:
			return nil, &graph.Error{Operation: graph.OperationList, Err: errLoop}
		case !t.client.owns(next):
			return nil, &graph.Error{Operation: graph.OperationList, Err: errForeignLink}
		case size > maxListing:
			return nil, &graph.Error{Operation: graph.OperationList, Err: errEndless}
		}
		seen[next] = true
	}
	return nil, &graph.Error{Operation: graph.OperationList, Err: errEndless}
}

func (t *Tenant) pageRequest(link string) func(context.Context) (*abstractions.RequestInformation, error) {
	pages := t.collection()
	if link != "" {
		pages = subscriptions.NewSubscriptionsRequestBuilder(link, t.client.adapter)
	}
	return func(ctx context.Context) (*abstractions.RequestInformation, error) {
		return pages.ToGetRequestInformation(ctx, nil)
	}
}

// owns says whether a link stays on Graph's origin. The token goes wherever
// the link leads.
func (c *Client) owns(link string) bool {
	u, err := url.Parse(link)
	return err == nil && u.User == nil && originOf(u) == c.endpoints.Graph
}
