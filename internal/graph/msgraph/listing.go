package msgraph

import (
	"context"
	"errors"
	"net/url"
	"time"

	abstractions "github.com/microsoft/kiota-abstractions-go"
	"github.com/microsoftgraph/msgraph-sdk-go/subscriptions"
	"golang.org/x/time/rate"

	"github.com/graphsubd/graphsubd/internal/graph"
)

const (
	// maxPages and maxListing bound a listing; at Graph's rate limit for
	// listings so many pages take almost half an hour.
	maxPages   = 2000
	maxListing = 128 << 20 // bytes
)

// Graph's documented limits on listings in each 20 s: for one app over all
// tenants, and for one app in one tenant. Each page is taken for one request.
// https://learn.microsoft.com/en-us/graph/throttling-limits (2026-02-06)
const (
	pagesPerApp    = 40
	pagesPerTenant = 25
	pagesWindow    = 20 * time.Second
	// pageTries is how often a page is asked for that Graph throttles: without
	// it a long listing could never be read to its end.
	pageTries = 5
	pageWait  = time.Second
)

// pages gives a limiter for so many pages in each window. Its burst is a tenth
// of them, which the flow leaves room for.
func (c Config) pages(perWindow float64) *rate.Limiter {
	flow := perWindow * c.QuotaShare * 0.9 / pagesWindow.Seconds() * c.Scale
	return rate.NewLimiter(rate.Limit(flow), max(1, int(perWindow*c.QuotaShare*0.1)))
}

// pace waits until the next page may be asked for.
func (t *Tenant) pace(ctx context.Context) error {
	err := t.client.pages.Wait(ctx)
	if err == nil {
		err = t.pages.Wait(ctx)
	}
	if err != nil {
		return silence(ctx, graph.OperationList, err)
	}
	return nil
}

// page makes one call of a listing, and again where Graph throttles it.
func (t *Tenant) page(ctx context.Context, c call) error {
	for try := 1; ; try++ {
		if err := t.pace(ctx); err != nil {
			return err
		}
		err := t.do(ctx, c)
		if graph.Classify(err) != graph.ReasonThrottled || try == pageTries {
			return err
		}
		wait := time.Duration(float64(pageWait) / t.client.cfg.Scale)
		if fault, ok := errors.AsType[*graph.Error](err); ok {
			wait = max(wait, fault.RetryAfter)
		}
		select {
		case <-ctx.Done():
			return silence(ctx, graph.OperationList, ctx.Err())
		case <-time.After(wait):
		}
	}
}

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
		err := t.page(ctx, call{
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
	return func(ctx context.Context) (*abstractions.RequestInformation, error) {
		// Made anew for each attempt: a builder of a raw URL works once.
		pages := t.collection()
		if link != "" {
			pages = subscriptions.NewSubscriptionsRequestBuilder(link, t.client.adapter)
		}
		return pages.ToGetRequestInformation(ctx, nil)
	}
}

// owns says whether a link stays on Graph's origin. The token goes wherever
// the link leads.
func (c *Client) owns(link string) bool {
	u, err := url.Parse(link)
	return err == nil && u.User == nil && originOf(u) == c.endpoints.Graph
}
