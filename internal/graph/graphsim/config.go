package graphsim

import (
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"
)

// Config sets up a Sim. The zero value of a field means the default that its
// comment names.
type Config struct {
	Seed       uint64          // 0 draws one below 2^53, so that JSON readers keep it exact
	TimeScale  float64         // how much faster Graph's own time runs; at least 1, default 1
	HTTPClient *http.Client    // sends handshakes and notifications; its redirect policy is ignored
	Logger     *slog.Logger    // default: discards
	SigningKey *rsa.PrivateKey // signs tokens; nil draws one of 2048 bits, never from the seed

	// LoginURL is the root that issuers of version 2 tokens begin with.
	// Default: https://login.microsoftonline.com, or the Server's own.
	LoginURL string

	Tenants []string          // tenant ids that exist; empty: every GUID does
	Clients map[string]Client // by client id; empty: every GUID with any secret

	// Token lifetimes are compressed to no less than a minute.
	TokenLifetime           time.Duration // of access tokens, default 1h
	ValidationTokenLifetime time.Duration // default 24h5m
	ValidationTokenVersion  string        // "1.0" or "2.0"; default: a seeded choice per application and tenant

	MaxLifetimes   map[Kind]time.Duration // overrides of the documented table, for basic and rich alike
	MinLifetime    time.Duration          // shorter requests are raised to it, default 45m
	GrantedShare   float64                // of the asked life that is granted, default 1; never below MinLifetime
	DelegatedOnly  bool                   // accept resources that real Graph gives to signed-in users only
	AllowPlainHTTP bool                   // accept http URLs beyond loopback
	Quotas         Quotas
	PageSize       int // of listings, default 100

	// ConflictOnDuplicate answers 409 where resource and changeType repeat a
	// live subscription of the same application and tenant. Real Graph does so
	// for some resources only, hence off by default. ConflictShowsID fills the
	// id into the text, which otherwise has a bare <>.
	ConflictOnDuplicate bool
	ConflictShowsID     bool

	Budgets        Budgets // default: none
	OmitRetryAfter bool    // leave Retry-After out of 429 answers

	HandshakeTimeout time.Duration // per URL, real time, default 10s
	FirstTimeout     time.Duration // of a first delivery, real time, default 3s
	RetryTimeout     time.Duration // of a repeated delivery, real time, default 10s
	RetryWindow      time.Duration // default 4h from the first attempt
	RetryBackoff     time.Duration // before the first repetition, doubling, default 10s
	MaxBackoff       time.Duration // default 30m
	Health           Health
	Concurrency      int // deliveries in flight, default 256
	BatchSize        int // most items in one POST, default 5

	DuplicateRate float64       // share of items sent twice, 0 to 1
	ReorderRate   float64       // share of POSTs overtaken by later ones, 0 to 1
	Delay         time.Duration // latency of each POST, drawn from 0 to Delay

	LogSize int // requests kept for Log, default 100000
}

// Client is one application registration.
type Client struct {
	Secrets      []string
	Certificates []*x509.Certificate // a client assertion signed by one of them is accepted
	// Subjects are those of federated assertions (workload identity). Such an
	// assertion comes from an issuer that the simulator does not know: its
	// signature is not checked, its audience, subject and times are.
	Subjects []string
	Roles    []string // in access tokens; default: a few read permissions

	anything bool // no registrations are configured
}

// Budgets are requests allowed in any 20 seconds (divided by TimeScale),
// answered 429 beyond. Refused requests count too. 0 is no limit.
type Budgets struct {
	WritesPerApp, WritesPerAppTenant             int // POST, PATCH, DELETE
	ReauthorizesPerApp, ReauthorizesPerAppTenant int
	ReadsPerApp, ReadsPerAppTenant               int // GET by id
	ListsPerApp, ListsPerAppTenant               int // each page of a listing
}

// DocumentedBudgets are Graph's published limits of the subscription service.
func DocumentedBudgets() Budgets {
	return Budgets{
		WritesPerApp: 2000, WritesPerAppTenant: 500,
		ReauthorizesPerApp: 4000, ReauthorizesPerAppTenant: 1000,
		ReadsPerApp: 2000, ReadsPerAppTenant: 500,
		ListsPerApp: 40, ListsPerAppTenant: 25,
	}
}

// Quotas are the most live subscriptions of their kind, answered 403 beyond.
// 0 is the documented default, a negative number is no limit.
type Quotas struct {
	Mailbox            int // per mailbox, all applications, default 1000
	DirectoryApp       int // users and groups per application, all tenants, default 50000
	DirectoryTenant    int // per tenant, all applications, default 1000
	DirectoryAppTenant int // per application and tenant, default 100
	Organization       int // Teams, per tenant, all applications, default 10000
	CallRecords        int // per tenant, default 100
	Approvals          int // per tenant, default 1000
	PerUser            int // Teams resources of one user, per path, default 10
	PerResource        int // Teams, Copilot and presence, per application and path, default 1
}

// Health describes how an endpoint becomes slow and how its notifications get
// dropped. An endpoint is a scheme and host.
type Health struct {
	Off       bool          // keep every endpoint healthy
	Window    time.Duration // of judged responses, and of each state, default 10m
	SlowShare float64       // of responses over FirstTimeout, default 0.10
	DropShare float64       // of responses over RetryTimeout, default 0.15
	Minimum   int           // responses before a judgement, default 10; 3 after a state ended
}

func (c Config) withDefaults() Config {
	setDefault(&c.TimeScale, 1)
	setDefault(&c.GrantedShare, 1)
	setDefault(&c.TokenLifetime, time.Hour)
	setDefault(&c.ValidationTokenLifetime, 24*time.Hour+5*time.Minute)
	setDefault(&c.MinLifetime, 45*time.Minute)
	setDefault(&c.PageSize, 100)
	setDefault(&c.HandshakeTimeout, 10*time.Second)
	setDefault(&c.FirstTimeout, 3*time.Second)
	setDefault(&c.RetryTimeout, 10*time.Second)
	setDefault(&c.RetryWindow, 4*time.Hour)
	setDefault(&c.RetryBackoff, 10*time.Second)
	setDefault(&c.MaxBackoff, 30*time.Minute)
	setDefault(&c.Concurrency, 256)
	setDefault(&c.BatchSize, 5)
	setDefault(&c.LogSize, 100_000)
	setDefault(&c.Health.Window, 10*time.Minute)
	setDefault(&c.Health.SlowShare, 0.10)
	setDefault(&c.Health.DropShare, 0.15)
	setDefault(&c.Health.Minimum, 10)
	c.Quotas = c.Quotas.withDefaults()
	c.MaxLifetimes = maps.Clone(c.MaxLifetimes)
	clients := make(map[string]Client, len(c.Clients))
	for id, client := range c.Clients {
		clients[strings.ToLower(id)] = client
	}
	c.Clients = clients
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (q Quotas) withDefaults() Quotas {
	setDefault(&q.Mailbox, 1000)
	setDefault(&q.DirectoryApp, 50_000)
	setDefault(&q.DirectoryTenant, 1000)
	setDefault(&q.DirectoryAppTenant, 100)
	setDefault(&q.Organization, 10_000)
	setDefault(&q.CallRecords, 100)
	setDefault(&q.Approvals, 1000)
	setDefault(&q.PerUser, 10)
	setDefault(&q.PerResource, 1)
	return q
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate joins all faults of the configuration in one error.
func (c Config) Validate() error {
	var faults []error
	refuse := func(bad bool, text string) {
		if bad {
			faults = append(faults, fmt.Errorf("graphsim: %s", text))
		}
	}
	refuse(c.TimeScale != 0 && !(c.TimeScale >= 1), "TimeScale must be at least 1")
	refuse(c.GrantedShare < 0 || c.GrantedShare > 1, "GrantedShare must be between 0 and 1")
	refuse(c.DuplicateRate < 0 || c.DuplicateRate > 1, "DuplicateRate must be between 0 and 1")
	refuse(c.ReorderRate < 0 || c.ReorderRate > 1, "ReorderRate must be between 0 and 1")
	refuse(c.PageSize < 0 || c.BatchSize < 0 || c.Concurrency < 0 || c.LogSize < 0,
		"PageSize, BatchSize, Concurrency and LogSize must not be negative")
	switch c.ValidationTokenVersion {
	case "", "1.0", "2.0":
	default:
		refuse(true, `ValidationTokenVersion must be "1.0" or "2.0"`)
	}
	for _, d := range []time.Duration{
		c.TokenLifetime, c.ValidationTokenLifetime, c.MinLifetime, c.HandshakeTimeout, c.FirstTimeout,
		c.RetryTimeout, c.RetryWindow, c.RetryBackoff, c.MaxBackoff, c.Delay, c.Health.Window,
	} {
		refuse(d < 0, "durations must not be negative")
	}
	for kind, d := range c.MaxLifetimes {
		refuse(rules().byKind(kind) == nil, fmt.Sprintf("MaxLifetimes names an unknown kind %q", kind))
		refuse(d <= 0, fmt.Sprintf("MaxLifetimes of %q must be positive", kind))
	}
	for id := range c.Clients {
		refuse(!isGUID(id), fmt.Sprintf("client %q is not a GUID", id))
	}
	for _, id := range c.Tenants {
		refuse(!isGUID(id), fmt.Sprintf("tenant %q is not a GUID", id))
	}
	return errors.Join(faults...)
}
