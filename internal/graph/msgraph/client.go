package msgraph

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	abstractions "github.com/microsoft/kiota-abstractions-go"
	"github.com/microsoft/kiota-abstractions-go/authentication"
	jsonserialization "github.com/microsoft/kiota-serialization-json-go"
	msgraphgocore "github.com/microsoftgraph/msgraph-sdk-go-core"
	"golang.org/x/time/rate"
)

// Client calls Graph for one app registration.
type Client struct {
	cfg       Config
	endpoints Endpoints
	http      *http.Client
	adapter   abstractions.RequestAdapter
	maker     proofMaker
	metrics   *metrics
	pages     *rate.Limiter // of listings, over all tenants
	skew      atomic.Int64  // nanoseconds

	mu      sync.Mutex
	tenants map[string]*Tenant // by id; guarded by mu
}

// New checks the configuration and registers the metrics. It reads no secret
// and sends nothing; the first call of a tenant fetches its token.
func New(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure the Graph client: %w", err)
	}
	endpoints, err := cfg.endpoints()
	if err != nil {
		return nil, fmt.Errorf("configure the Graph client: %w", err)
	}
	metrics, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of the Graph client: %w", err)
	}
	transport := cfg.Transport
	if transport == nil {
		transport = newTransport(cfg)
	}
	client := newHTTPClient(transport)
	adapter, err := newAdapter(client)
	if err != nil {
		return nil, fmt.Errorf("set up the Graph SDK: %w", err)
	}
	return &Client{
		cfg:       cfg,
		endpoints: endpoints,
		http:      client,
		adapter:   adapter,
		maker:     newProofMaker(cfg, endpoints, newHTTPClient(bounded{transport})),
		metrics:   metrics,
		pages:     cfg.pages(pagesPerApp),
		tenants:   map[string]*Tenant{},
	}, nil
}

// newAdapter gives the SDK what it builds requests with. The serializers are
// handed over, so nothing is registered in the process's own registry.
func newAdapter(client *http.Client) (abstractions.RequestAdapter, error) {
	return msgraphgocore.NewGraphRequestAdapterBaseWithParseNodeFactoryAndSerializationWriterFactoryAndHttpClient(
		&authentication.AnonymousAuthenticationProvider{}, msgraphgocore.GraphClientOptions{},
		jsonserialization.NewJsonParseNodeFactory(), jsonserialization.NewJsonSerializationWriterFactory(), client)
}

// Endpoints gives the hosts that the client talks to.
func (c *Client) Endpoints() Endpoints { return c.endpoints }

// Tenant gives the calls in one Entra tenant, the same ones for the same id.
func (c *Client) Tenant(tenantID string) *Tenant {
	id := strings.ToLower(tenantID)
	c.mu.Lock()
	defer c.mu.Unlock()
	tenant := c.tenants[id]
	if tenant == nil {
		tenant = &Tenant{client: c, id: id, tokens: newTokens(id, c.endpoints.Scope, c.maker), pages: c.cfg.pages(pagesPerTenant)}
		c.tenants[id] = tenant
	}
	return tenant
}

// Skew is how far Graph's clock was ahead of this machine's at its last
// answer, to about a second; 0 before the first.
func (c *Client) Skew() time.Duration { return time.Duration(c.skew.Load()) }

// measureSkew takes the Date of an answer of Graph's own; a proxy has a clock
// of its own.
func (c *Client) measureSkew(header http.Header, now time.Time) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	skew := date.Sub(now)
	former := time.Duration(c.skew.Swap(int64(skew)))
	switch far, was := skew.Abs() >= skewWorthTelling, former.Abs() >= skewWorthTelling; {
	case far && !was:
		c.cfg.Logger.Warn("clock differs from graph's, check the time synchronisation of this machine",
			"skew_seconds", skew.Seconds())
	case was && !far:
		c.cfg.Logger.Info("clock agrees with graph's again")
	}
}

// skewWorthTelling is far more than a Date of whole seconds and a slow answer
// can make up.
const skewWorthTelling = time.Minute

// Close ends the idle connections. Calls under way go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }
