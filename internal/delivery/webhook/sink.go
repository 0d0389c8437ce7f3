package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/graphsubd/graphsubd/internal/delivery"
)

// The defaults of Config.
const (
	DefaultConcurrency = 32
	DefaultTimeout     = 10 * time.Second
)

const (
	// dialTimeout bounds a connection attempt and, after it, the handshake of
	// TLS, so that a host that is gone is found before a request times out.
	dialTimeout = 5 * time.Second
	idleTimeout = 90 * time.Second
	// pingAfter and pingTimeout find an HTTP/2 connection that has died
	// without a word, before the requests on it are out of time: it would
	// otherwise be used again and again.
	pingAfter, pingTimeout = 5 * time.Second, 3 * time.Second
	// maxHeaderBytes bounds what is read of an answer's header.
	maxHeaderBytes = 64 << 10
)

// Config is the configuration of a sink.
type Config struct {
	// URL is where events are posted: http or https, without a user in it.
	URL string
	// Secrets read the signing secrets, the one to put the first signature on
	// first. One that begins with whsec_ holds its key as base64 after that;
	// any other is the key itself.
	Secrets []func() (string, error)
	// Concurrency is how many requests run at once; 0 means the default.
	Concurrency int
	// Timeout bounds one request with its answer; 0 means the default.
	Timeout time.Duration
	// Logger is told of secrets that cannot be read; nil means none.
	Logger *slog.Logger
}

// Sink posts events to one URL. It is for one goroutine.
type Sink struct {
	url         string
	keys        *keyring
	concurrency int
	timeout     time.Duration
	transport   *http.Transport
	client      *http.Client
}

// New checks the configuration. It reads no secret and opens no connection.
func New(cfg Config) (*Sink, error) {
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("webhook sink: the URL is no http or https address")
	case u.User != nil:
		return nil, errors.New("webhook sink: the URL has a user in it")
	case len(cfg.Secrets) == 0:
		return nil, errors.New("webhook sink: no secret")
	case cfg.Concurrency < 0 || cfg.Timeout < 0:
		return nil, errors.New("webhook sink: Concurrency and Timeout must be positive")
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	concurrency := cmp.Or(cfg.Concurrency, DefaultConcurrency)
	transport := newTransport(concurrency)
	return &Sink{
		url: cfg.URL, keys: &keyring{read: cfg.Secrets, log: logger},
		concurrency: concurrency, timeout: cmp.Or(cfg.Timeout, DefaultTimeout), transport: transport,
		client: &http.Client{Transport: transport, CheckRedirect: refuseRedirect},
	}, nil
}

func newTransport(concurrency int) *http.Transport {
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		MaxIdleConns:           concurrency,
		MaxIdleConnsPerHost:    concurrency,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// proxy hides the error of a proxy's address, which may hold a password.
func proxy(request *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(request)
	if err != nil {
		return nil, errors.New("the proxy that the environment names is no address")
	}
	return u, nil
}

// refuseRedirect gives a redirect back as the answer that it is.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Send posts the events, begun in order, as many at once as is configured.
func (s *Sink) Send(ctx context.Context, events []event.Event) []error {
	results := make([]error, len(events))
	signers, err := s.keys.current(ctx, time.Now())
	if err != nil {
		for i := range results {
			results[i] = err
		}
		return results
	}
	var (
		last atomic.Int64
		halt outage
		wait sync.WaitGroup
	)
	for range min(s.concurrency, len(events)) {
		wait.Go(func() {
			for i := last.Add(1) - 1; i < int64(len(events)); i = last.Add(1) - 1 {
				results[i] = s.try(ctx, &events[i], signers, &halt)
			}
		})
	}
	wait.Wait()
	s.keys.learn(results)
	if halt.err() != nil {
		// The next try finds where the name leads by then.
		s.transport.CloseIdleConnections()
	}
	return results
}

// try posts one event unless that is known to be in vain.
func (s *Sink) try(ctx context.Context, e *event.Event, signers signers, halt *outage) error {
	if err := halt.err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return delivery.ErrNotTried
	}
	err := s.post(ctx, e, signers)
	halt.note(err)
	return err
}

// Close ends the connections.
func (s *Sink) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}
