package msgraph

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is one app registration. The zero value of an optional field means
// the default that its comment names.
type Config struct {
	// Cloud fixes the login host, the scope and Graph's host together.
	Cloud Cloud
	// GraphURL and LoginURL replace the cloud's hosts, for a simulator or a
	// proxy; each is https://host[:port]. "" leaves the cloud's.
	GraphURL, LoginURL string

	// ClientID is the application id. It may be "" for a managed identity
	// and for the default chain.
	ClientID   string
	Credential Credential

	// Roots are the certificate authorities to trust for Graph and the
	// login; nil is the system's. It goes with a nil Transport only.
	Roots *x509.CertPool
	// Transport carries the calls to Graph and the token requests alike;
	// nil is one of the client's own, with proxies from the environment.
	Transport http.RoundTripper

	// Stamp gives a text that names term and holder. It goes into the
	// client-request-id of every write; nil adds nothing.
	Stamp func() string

	// CreateTimeout bounds one attempt of a create, 40 s by default: Graph
	// calls the receiver back inside it, for each URL up to 10 s.
	CreateTimeout time.Duration
	// CallTimeout bounds one attempt of any other call, 20 s by default.
	CallTimeout time.Duration

	// QuotaShare is the share of Graph's documented limit on listings to use,
	// 0.9 by default, and Scale how much faster Graph's time runs, 1 by
	// default. A listing keeps to them page by page.
	QuotaShare, Scale float64

	Logger *slog.Logger // nil discards
	// Registerer takes the metrics. Clients that share one share the
	// metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
}

const (
	defaultCreateTimeout = 40 * time.Second
	defaultCallTimeout   = 20 * time.Second
)

func (c Config) withDefaults() Config {
	if c.CreateTimeout == 0 {
		c.CreateTimeout = defaultCreateTimeout
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = defaultCallTimeout
	}
	if c.QuotaShare == 0 {
		c.QuotaShare = 0.9
	}
	if c.Scale == 0 {
		c.Scale = 1
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Stamp == nil {
		c.Stamp = func() string { return "" }
	}
	return c
}

// Validate reports every fault of the configuration at once.
func (c Config) Validate() error {
	_, err := c.endpoints()
	faults := []error{err, c.Credential.validate(c.ClientID)}
	if c.Roots != nil && c.Transport != nil {
		faults = append(faults, errors.New("give either Roots or Transport: a given transport trusts what it likes"))
	}
	if c.CreateTimeout < 0 || c.CallTimeout < 0 {
		faults = append(faults, errors.New("the time-outs CreateTimeout and CallTimeout have to be positive"))
	}
	return errors.Join(faults...)
}

func (c Config) endpoints() (Endpoints, error) {
	endpoints, err := EndpointsOf(c.Cloud)
	if err != nil {
		return endpoints, err
	}
	return endpoints.override(c.GraphURL, c.LoginURL)
}
